"""Stage ``settings``: check ``params.yaml`` and the hyperparameters of the estimators it names."""

from __future__ import annotations

import argparse
from contextlib import chdir
from pathlib import Path

from accelperf.errors import exit_on_error
from accelperf.models.catalog import check_settings as check_hyperparameters
from accelperf.settings import (
    CONF_FOLDER,
    Settings,
    find_project_root,
    make_importable,
    read_evaluation,
    read_settings,
)
from accelperf.yaml_input import read_mapping

MARKER = "The settings are valid.\n"
"""Content of the marker file: constant, so that stages which depend on it do not run again."""


def check_settings(root: Path) -> Settings:
    """Check everything that a user of a project can set.

    Parameters
    ----------
    root : Path
        The project's folder.

    Returns
    -------
    Settings
        The content of ``params.yaml``.

    Raises
    ------
    InputError
        For the first thing wrong in ``params.yaml``, ``conf/evaluation`` or ``conf/model``.
    """
    settings = read_settings(root)
    for scheme in settings.schemes:
        read_evaluation(root, scheme)
    make_importable(root)
    for key in settings.models:
        path = root / CONF_FOLDER / "model" / f"{key}.yaml"
        hyperparameters, lines = read_mapping(path)
        check_hyperparameters(key, hyperparameters, file=path, lines=lines)
    return settings


def run(root: Path, output: Path | None = None) -> None:
    """Run the stage.

    Parameters
    ----------
    root : Path
        The project's folder.
    output : Path, optional
        Marker file to write once everything was found valid.

    Raises
    ------
    InputError
        See `check_settings`.
    """
    check_settings(root)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(MARKER, encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Check the settings of the project in the working directory or above it."""
    parser = argparse.ArgumentParser(prog="python -m accelperf.stages.settings", description=__doc__)
    parser.add_argument("--output", type=Path, help="marker file to write if all is well")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    options = parser.parse_args(arguments)
    with exit_on_error(debug=options.debug):
        root = find_project_root()
        output = options.output and options.output.resolve()
        # Errors name files as seen from the project.
        with chdir(root):
            run(Path(), output)


if __name__ == "__main__":
    main()
