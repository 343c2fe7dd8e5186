from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accelperf.pictures import error_along_network, predicted_against_measured

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
