from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accelperf.pictures import (
    error_along_network,
    heat_map,
    heat_map_axes,
    network_totals,
    predicted_against_measured,
    reliability_diagram,
)

PNG = b"\x89PNG\r\n\x1a\n"


def predictions(*, estimators: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for index in range(max(estimators, 1)):
        rows = pd.DataFrame(
            {
                "accelerator": np.repeat(["a", "b"], 6),
                "network": np.tile(np.repeat(["n1", "n2"], 3), 2),
                "position": np.tile(np.arange(3), 4),
                "latency_ms": rng.uniform(0.1, 5, 12),
                "predicted_ms": rng.uniform(-0.5, 5, 12),
            }
        )
        parts.append(rows.assign(estimator=f"e{index}") if estimators else rows)
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("draw", [predicted_against_measured, error_along_network])
@pytest.mark.parametrize("estimators", [0, 1, 5])
def test_a_picture_is_written_and_the_same_each_time(draw, estimators: int, tmp_path: Path) -> None:
    table = predictions(estimators=estimators)
    for name in ("one.png", "two.png"):
        draw(table, tmp_path / name, title="Title", simulated=True)
    content = (tmp_path / "one.png").read_bytes()
    assert content.startswith(PNG)
    assert content == (tmp_path / "two.png").read_bytes()
    draw(table, tmp_path / "measured.png", title="Title", simulated=False)
    # The mark of simulated data is in the picture itself.
    assert content != (tmp_path / "measured.png").read_bytes()


def coverage(scheme: str, estimator: str, shares: list[float]) -> pd.DataFrame:
    table = pd.DataFrame({"nominal": [0.5, 0.8, 0.9, 0.95], "coverage": shares})
    return table.assign(scheme=scheme, estimator=estimator, mean_relative_width=0.2)


def test_coverage_of_intervals_is_drawn(tmp_path: Path) -> None:
    table = pd.concat(
        [
            coverage("loo", "a", [0.5, 0.8, 0.9, 0.95]),
            coverage("loo", "b", [0.1, 0.2, 0.3, 0.4]),
            coverage("leave_one_shape_out", "a", [0.9, 0.9, 1.0, 1.0]),
        ]
    )
    pictures = {}
    for name, part in (("all", table), ("one", table[:4]), ("none", table[:0])):
        for simulated in (True, False):
            path = tmp_path / f"{name}{simulated}.png"
            reliability_diagram(part, path, title="Title", simulated=simulated)
            assert path.read_bytes().startswith(PNG)
            pictures[path.read_bytes()] = path
    assert len(pictures) == 6


def test_totals_are_drawn_and_what_is_far_off_stands_on_the_edge(tmp_path: Path) -> None:
    rows = [
        {"scheme": scheme, "estimator": estimator, "accelerator": "a", "network": network}
        for scheme in ("loo", "leave_one_shape_out")
        for estimator in ("e1", "e2")
        for network in ("n1", "n2")
    ]
    drawn = []
    for far in (3.0, 30.0, 0.0):
        table = pd.DataFrame(rows).assign(relative_error=[0.1, -0.1, far, -0.9, 0.0, 0.0, 0.5, 0.2])
        network_totals(table, tmp_path / "totals.png", title="Title", simulated=True)
        drawn.append((tmp_path / "totals.png").read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def sweep(**axes: list) -> pd.DataFrame:
    """Return the table of a sweep over axes, with errors that differ."""
    table = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
    return table.assign(mae_ms=0.1 + 0.01 * np.arange(len(table)), status="finished")


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"alpha": [1.0]}, []),
        ({"alpha": [1.0, 2.0]}, ["alpha"]),
        ({"max_depth": [1, 2], "n_estimators": [1, 2, 3]}, ["n_estimators", "max_depth"]),
        (
            {"layers": ["a", "b", "c"], "learning_rate": [0.1, 1.0], "kernel": ["rbf", "linear"]},
            ["kernel", "learning_rate", "layers"],
        ),
        (
            {"a": [1, 2, 3], "b": list(range(6)), "c": list(range(7)), "d": list(range(5))},
            ["c", "b", "a"],
        ),
        ({"a": list(range(61)), "b": [1, 2]}, ["b"]),
    ],
)
def test_axes_of_the_heat_map(axes: dict, expected: list[str]) -> None:
    assert heat_map_axes(sweep(**axes), list(axes)) == expected


@pytest.mark.parametrize(
    "names", [["kernel"], ["kernel", "learning_rate"], ["kernel", "learning_rate", "ard"]]
)
def test_the_heat_map_is_written_and_the_same_each_time(names: list[str], tmp_path: Path) -> None:
    table = sweep(kernel=["rbf", "linear*rbf"], learning_rate=[0.1, 0.01, 1e-6], ard=[True, False])
    table.loc[0, "mae_ms"] = 50.0
    table.loc[table["kernel"] == "rbf", "mae_ms"] = [np.nan, np.nan, 1.0, 2.0, 3.0, 4.0]
    for name in ("one.png", "two.png"):
        heat_map(table.drop(index=11), names, tmp_path / name, title="Title", simulated=True)
    content = (tmp_path / "one.png").read_bytes()
    assert content.startswith(PNG)
    assert content == (tmp_path / "two.png").read_bytes()
    heat_map(table.drop(index=11), names, tmp_path / "measured.png", title="Title", simulated=False)
    assert content != (tmp_path / "measured.png").read_bytes()


def test_a_sweep_of_equal_errors_has_a_heat_map(tmp_path: Path) -> None:
    table = sweep(alpha=[0.0, 1.0]).assign(mae_ms=0.5)
    heat_map(table, ["alpha"], tmp_path / "one.png", title="Title", simulated=False)
    assert (tmp_path / "one.png").read_bytes().startswith(PNG)
