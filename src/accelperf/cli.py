"""The command ``accelperf``: translates words into calls, and prints what comes back.

Everything heavy is imported inside the command that needs it, so that ``--help`` is instant.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from accelperf import __version__
from accelperf.errors import InputError, exit_on_error

app = typer.Typer(
    name="accelperf",
    help="Latency of CNN layers on FPGA accelerators, learned from logs on top of the analytic model.",
    epilog="Example: `accelperf simulate profile resnet50 --platform sim-table4 --output-dir logs`. "
    "Sweeps: `accelperf-train --help`. Whole experiment: `dvc repro`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
simulate = typer.Typer(no_args_is_help=True, help="Make SIMULATED logs in the formats that are read.")
app.add_typer(simulate, name="simulate")

LogFolder = Annotated[Path, typer.Argument(help="Folder with logs and their run.yaml files.")]
Output = Annotated[Path, typer.Option(help="Table to write (CSV).")]
Report = Annotated[Path, typer.Option(help="JSON with the rows read, kept and skipped by reason.")]
Platforms = Annotated[Path, typer.Option(help="Folder of platform files (*.yaml).")]
Networks = Annotated[Path, typer.Option(help="Folder of network tables (*.csv).")]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the logs, instead of recognising it.")
]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"accelperf {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    # `main` looks for --debug itself: errors are turned into lines outside of Typer.
    del debug, version


@app.command("ingest-memory")
def ingest_memory(
    logs: LogFolder = Path("data/raw/memory"),
    output: Output = Path("data/interim/memory.csv"),
    report: Report = Path("data/interim/ingest_memory.json"),
) -> None:
    """Read Shuhai logs into the memory table (a DVC stage).

    Example: accelperf ingest-memory data/raw/memory
    """
    from accelperf.stages import ingest_memory as stage

    stage.run(logs, output, report)


@app.command("ingest-profiles")
def ingest_profiles(
    logs: LogFolder = Path("data/raw/profiles"),
    platforms: Platforms = Path("data/platforms"),
    output: Output = Path("data/interim/layers.csv"),
    report: Report = Path("data/interim/ingest_profiles.json"),
    networks: Networks = Path("data/networks"),
    format_name: Format = None,
) -> None:
    """Read and check profiling logs, into the layer table (a DVC stage).

    What is done about what the checks find stands under `checks` in params.yaml.

    Example: accelperf ingest-profiles data/raw/profiles
    """
    from accelperf.settings import project_checks
    from accelperf.stages import ingest_profiles as stage

    stage.run(logs, platforms, output, report, networks, project_checks(), format_name=format_name)


@app.command()
def check(
    logs: Annotated[list[Path], typer.Argument(help="Profiling logs, or folders of them.")],
    platforms: Platforms = Path("data/platforms"),
    networks: Networks = Path("data/networks"),
    format_name: Format = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="Platform that ran, instead of run.yaml's: NAME, or CONFIGURATION=NAME for a log that "
            "names configurations; may repeat."
        ),
    ] = None,
    network: Annotated[str | None, typer.Option(help="Network that ran, instead of run.yaml's.")] = None,
    origin: Annotated[
        str | None, typer.Option(help="measured, simulated or estimated; measured if nothing says so.")
    ] = None,
    geometry: Annotated[
        str | None, typer.Option(help="Network table or ONNX model with the sizes, by name or path.")
    ] = None,
    as_tsv: Annotated[
        bool, typer.Option("--tsv", help="Tab-separated findings, as when piped; default: a table.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings and account as JSON.")] = False,
) -> None:
    """Check profiling logs and list what is doubtful, without writing anything.

    Exit status: 0 if nothing was found, 1 if something was, 2 if a log cannot be read.

    Example: accelperf check profile.txt --platform zcu102-b4096 --geometry alexnet
    """
    from accelperf.settings import project_checks
    from accelperf.stages import check as stage

    if as_tsv and as_json:
        raise InputError("one of --tsv and --json", "both")
    given = stage.Options(platform or [], network, origin, geometry)
    found, errors = stage.run(logs, platforms, networks, project_checks(), given, format_name=format_name)
    if as_json:
        typer.echo(stage.as_json(found, errors), nl=False)
    else:
        typer.echo(stage.as_text(found, tabs=as_tsv or not sys.stdout.isatty()), nl=False)
    if not as_json:
        for line in stage.account_of(found, errors):
            typer.echo(line, err=True)
    for error in errors:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(stage.exit_status(found, errors))


@app.command()
def featurise(
    layers: Annotated[Path, typer.Option(help="Layer table.")] = Path("data/interim/layers.csv"),
    platforms: Platforms = Path("data/platforms"),
    memory: Annotated[Path, typer.Option(help="Memory table.")] = Path("data/interim/memory.csv"),
    output: Output = Path("data/processed/features.csv"),
    report: Annotated[Path, typer.Option(help="JSON with the rows kept and left out by reason.")] = Path(
        "data/processed/featurise.json"
    ),
) -> None:
    """Join layers, platforms and memory efficiency into the 15 parameters (a DVC stage).

    Which origins and accelerators take part stands in params.yaml.

    Example: accelperf featurise
    """
    from accelperf.settings import find_project_root, read_settings
    from accelperf.stages import featurise as stage

    settings = read_settings(find_project_root())
    stage.run(
        layers,
        platforms,
        memory,
        output,
        origins=settings.origins,
        accelerators=settings.accelerators,
        report=report,
    )


@app.command()
def report(
    results: Annotated[Path, typer.Option(help="Results of the train stages.")] = Path("results"),
    models: Annotated[Path, typer.Option(help="Fitted estimators of the train stages.")] = Path("models"),
    features: Annotated[Path, typer.Option(help="Features.")] = Path("data/processed/features.csv"),
    output_dir: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("reports"),
) -> None:
    """Compare the estimators in tables and pictures, and register the best one (a DVC stage).

    Example: accelperf report
    """
    from accelperf.settings import find_project_root, read_settings
    from accelperf.stages import report as stage

    root = find_project_root()
    for line in stage.run(root, read_settings(root), results, models, features, output_dir):
        typer.echo(line)
    typer.echo(f"tables and pictures: {output_dir}/report.md, comparison: {output_dir}/comparison.md")


@app.command()
def memory(
    logs: Annotated[
        list[Path] | None, typer.Argument(help="Shuhai logs, or folders of them (default: data/raw/memory).")
    ] = None,
    output_dir: Annotated[Path, typer.Option(help="Folder for page, summary and pictures.")] = Path(
        "reports/memory"
    ),
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the summary as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary and all notes as JSON.")] = False,
) -> None:
    """Say what Shuhai logs show about a memory: summary, page and pictures.

    Example: accelperf memory data/raw/memory | grep page_hit
    """
    from accelperf.errors import InputError
    from accelperf.memory_report.summary import summary_csv, summary_json, summary_text
    from accelperf.stages import memory_report as stage

    if as_csv and as_json:
        raise InputError("one of --csv and --json", "both")
    found = stage.run(logs or [Path("data/raw/memory")], output_dir)
    if as_csv:
        typer.echo(summary_csv(found.lines), nl=False)
    elif as_json:
        typer.echo(summary_json(found.analysis, found.lines), nl=False)
    else:
        typer.echo(summary_text(found.lines))
    typer.echo(f"{len(found.files)} files in {output_dir}: see {found.files[0].name}", err=True)


@app.command()
def predict(
    networks: Annotated[
        list[str],
        typer.Argument(help="Networks: names of tables, or paths of tables (.csv) or ONNX models (.onnx)."),
    ],
    platform: Annotated[str, typer.Option(help="Platform: a name, or the path of a file (.yaml).")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Trained estimator: a folder, or a name in models/. Default: the one with the least MAE in "
            "reports/comparison.csv that is there; without any, the analytic model."
        ),
    ] = None,
    pipeline: Annotated[
        bool,
        typer.Option(
            "--pipeline/--sequential",
            help="Layers work at once, each on an image of its own (the slowest sets the pace), or one "
            "after another (their sum).",
        ),
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Number of images, one after another.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="PNG file to draw timeline and layers into.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    platforms: Platforms = Path("data/platforms"),
    networks_folder: Annotated[
        Path, typer.Option("--networks", help="Folder of network tables (*.csv).")
    ] = Path("data/networks"),
    memory_table: Annotated[
        Path, typer.Option("--memory", help="Memory table, for platforms that name a memory profile.")
    ] = Path("data/interim/memory.csv"),
    allow_module: Annotated[
        list[str] | None,
        typer.Option(help="Python module of one's own mean function that the estimator may import."),
    ] = None,
) -> None:
    """Predict the latency of networks that need not have run: layers, total and frames a second.

    Prints a table; tab-separated values when piped.

    Example: accelperf predict resnet50 --platform sim-table4 --picture resnet50.png
    """
    from accelperf import predict as prediction
    from accelperf.predict import text

    if as_csv and as_json:
        raise InputError("one of --csv and --json", "both")
    found = prediction.run(
        prediction.Request(
            networks=networks,
            platform=platform,
            model=model,
            schedule="pipeline" if pipeline else "sequential",
            batch=batch,
            picture=picture,
            modules=allow_module or [],
            platforms_folder=platforms,
            networks_folder=networks_folder,
            memory_table=memory_table,
        )
    )
    if as_json:
        typer.echo(text.json_text(found), nl=False)
        return
    if not as_csv and sys.stdout.isatty():
        typer.echo("\n".join(text.table_text(each) for each in found), nl=False)
        return
    typer.echo(text.delimited(found, "," if as_csv else "\t"), nl=False)
    for each in found:
        typer.echo("\n".join([text.heading(each), *text.total_lines(each)]), err=True)


@app.command()
def explore(
    networks: Annotated[
        list[str],
        typer.Argument(help="Networks: names of tables, or paths of tables (.csv) or ONNX models (.onnx)."),
    ],
    platform: Annotated[str, typer.Option(help="Platform to vary: a name, or the path of a file (.yaml).")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUES, such as filter_parallelism=16,32, channel_parallelism=16:128:16 or "
            "16:128:x2; may repeat. An unknown name lists the known ones."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Folder of a trained estimator, or its name; default: the best of models/."),
    ] = None,
    max_dsp: Annotated[int | None, typer.Option(help="Most DSP slices of a design.")] = None,
    max_bram_bits: Annotated[int | None, typer.Option(help="Most bits of buffers of a design.")] = None,
    max_latency_ms: Annotated[
        float | None, typer.Option(help="Bound of the latency of all networks together, in ms.")
    ] = None,
    min_probability: Annotated[
        float, typer.Option(help="Least probability of keeping that bound; 0.5: the median keeps it.")
    ] = 0.5,
    inside: Annotated[
        bool, typer.Option("--inside", help="Leave out designs outside of the training data's range.")
    ] = False,
    resource: Annotated[
        str, typer.Option(help="What the front weighs latency against: dsp or bram_bits.")
    ] = "dsp",
    dsp_use: Annotated[
        str,
        typer.Option(
            help="Multiplications in a DSP slice: one, int8-pair (two that share a factor, DSP48E2) or "
            "int8-dot3 (a dot product of three, DSP58)."
        ),
    ] = "one",
    tile_pixels: Annotated[int, typer.Option(min=1, help="Output pixels of a tile, for the buffers.")] = 4096,
    top: Annotated[int, typer.Option(min=0, help="Designs to print, best first; 0 for all.")] = 20,
    next_count: Annotated[
        int,
        typer.Option(
            "--next",
            min=0,
            help="List so many measurements that would teach the estimator most; with --csv instead of "
            "the designs.",
        ),
    ] = 0,
    picture: Annotated[Path | None, typer.Option(help="PNG file to draw the front into.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    platforms: Platforms = Path("data/platforms"),
    networks_folder: Annotated[
        Path, typer.Option("--networks", help="Folder of network tables (*.csv).")
    ] = Path("data/networks"),
    memory_table: Annotated[
        Path, typer.Option("--memory", help="Memory table, for platforms that name a memory profile.")
    ] = Path("data/interim/memory.csv"),
) -> None:
    """Rank designs that were not built: latency against DSP slices or buffers.

    Example: accelperf explore resnet50 --platform sim-table4 --vary filter_parallelism=16:128:x2
    --vary channel_parallelism=16:128:16 --max-dsp 4096 --max-latency-ms 20 --picture front.png
    """
    from accelperf import explore as exploration
    from accelperf.explore import text

    if as_csv and as_json:
        raise InputError("one of --csv and --json", "both")
    found = exploration.run(
        exploration.Request(
            networks=networks,
            platform=platform,
            vary=vary or [],
            model=model,
            constraints=exploration.Constraints(
                max_dsp, max_bram_bits, max_latency_ms, min_probability, inside
            ),
            resource=resource,
            dsp_use=dsp_use,
            tile_pixels=tile_pixels,
            next_count=next_count,
            platforms_folder=platforms,
            networks_folder=networks_folder,
            memory_table=memory_table,
        )
    )
    if picture is not None:
        from accelperf.explore.picture import write_picture

        write_picture(found, picture)
    if as_json:
        typer.echo(text.exploration_json(found, top), nl=False)
    elif as_csv:
        typer.echo(text.measurements_csv(found) if next_count else text.designs_csv(found, top), nl=False)
    else:
        typer.echo(text.designs_text(found, top), nl=False)
        typer.echo(text.measurements_text(found), nl=False)
    for line in text.notes(found):
        typer.echo(line, err=True)


@simulate.command("profile")
def simulate_profile(
    network: Annotated[str, typer.Argument(help="Name of a network table.")],
    platform: Annotated[str, typer.Option(help="Name of a platform.")],
    output_dir: Annotated[Path, typer.Option(help="Folder for NETWORK.csv and run.yaml.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the measurement noise.")] = 0,
    platforms: Platforms = Path("data/platforms"),
    networks: Networks = Path("data/networks"),
    memory: Annotated[
        Path, typer.Option(help="Memory table, for platforms that name a memory profile.")
    ] = Path("data/interim/memory.csv"),
) -> None:
    """Write a SIMULATED profiling log of a network on a platform.

    Example: accelperf simulate profile resnet50 --platform sim-table4 --output-dir logs
    """
    from accelperf.memory.profiles import platform_efficiency
    from accelperf.memory.table import read_memory
    from accelperf.networks import find_network, read_network
    from accelperf.platforms import MemoryPattern, get_platform, read_platforms
    from accelperf.simulate.profile import simulate_profile as simulate_layers
    from accelperf.simulate.profile import write_profile

    layers = read_network(find_network(network, networks))
    target = get_platform(read_platforms(platforms), platform)
    table = read_memory(memory) if isinstance(target.memory_efficiency, MemoryPattern) else None
    efficiency = platform_efficiency(target, table).value
    profile = simulate_layers(layers, target, efficiency, seed=seed)
    path = write_profile(
        profile, output_dir, network=network, platform=target, memory_efficiency=efficiency, seed=seed
    )
    typer.echo(f"{path}: {len(profile)} SIMULATED layers, {profile['latency_ms'].sum():.3f} ms in all")


@simulate.command("memory")
def simulate_memory(
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder for shuhai.log and run.yaml; nothing is written without it.")
    ] = None,
    memory: Annotated[str, typer.Option(help="hbm or ddr4.")] = "hbm",
    policy: Annotated[
        str | None, typer.Option(help="Address mapping policy; the controller's default if not given.")
    ] = None,
    switch: Annotated[str | None, typer.Option(help="State of the HBM switch: on or off.")] = None,
    mode: Annotated[str, typer.Option(help="throughput or latency.")] = "throughput",
    direction: Annotated[str, typer.Option(help="read or write.")] = "read",
    channel: Annotated[list[int] | None, typer.Option(min=0, help="Enabled channel; may repeat.")] = None,
    burst_bytes: Annotated[int | None, typer.Option(help="B, bytes of one access.")] = None,
    stride_bytes: Annotated[int | None, typer.Option(help="S, bytes from one access to the next.")] = None,
    working_set_bytes: Annotated[int | None, typer.Option(help="W, bytes until the start again.")] = None,
    num_ops: Annotated[int | None, typer.Option(help="N, accesses of each channel.")] = None,
    pattern: Annotated[str, typer.Option(help="rst, or random (which has no log).")] = "rst",
    seed: Annotated[int, typer.Option(min=0, help="Seed of random accesses.")] = 0,
) -> None:
    """Run the Shuhai benchmark on the DRAM model and write its SIMULATED log.

    Options that are not given stay out of the log, as the benchmark's own defaults do.

    Example: accelperf simulate memory --burst-bytes 64 --stride-bytes 64 --output-dir logs/b64
    """
    from accelperf.simulate.memory_run import simulate_memory as run_benchmark

    for name, value, choices in (
        ("--switch", switch, ("on", "off")),
        ("--mode", mode, ("throughput", "latency")),
        ("--direction", direction, ("read", "write")),
        ("--pattern", pattern, ("rst", "random")),
    ):
        if value is not None and value not in choices:
            raise InputError(f"{name} {' or '.join(choices)}", repr(value))
    run = run_benchmark(
        output_dir,
        memory=memory,
        policy=policy,
        switch=cast(Any, switch),
        mode=cast(Any, mode),
        direction=cast(Any, direction),
        channels=channel or (0,),
        burst_bytes=burst_bytes,
        stride_bytes=stride_bytes,
        working_set_bytes=working_set_bytes,
        num_ops=num_ops,
        kind=cast(Any, pattern),
        seed=seed,
    )
    for line in run.summary():
        typer.echo(f"SIMULATED {line}")
    if output_dir is not None:
        typer.echo(f"written: {', '.join(str(output_dir / name) for name in run.files)}", err=True)


def main() -> None:
    """Run the command; bad input ends in one line on stderr and exit status 2."""
    with exit_on_error(debug="--debug" in sys.argv):
        app()


if __name__ == "__main__":
    main()
