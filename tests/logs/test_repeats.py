"""Merging runs of one layer, against the runs themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.layers import GEOMETRY_COLUMNS, LAYER_COLUMNS, validate_layers
from accelperf.logs.repeats import merge_repeats

RTOL_STATISTICS = 1e-9
ATOL_STATISTICS = 1e-9


def rows_of(campaigns: list[list[float]], layer: str = "conv") -> pd.DataFrame:
    """Return one row a campaign, as a log that states mean, spread and count would give."""
    return pd.DataFrame(
        {
            "accelerator": "acc",
            "network": "net",
            "layer": layer,
            "position": 0,
            "operator": "conv",
            **dict.fromkeys(GEOMETRY_COLUMNS, 1),
            "latency_ms": [np.mean(runs) for runs in campaigns],
            "latency_std_ms": [np.std(runs, ddof=1) if len(runs) > 1 else np.nan for runs in campaigns],
            "repeats": [len(runs) for runs in campaigns],
            "origin": "measured",
            "source_file": "log.csv",
            "source_line": np.arange(len(campaigns)) + 2,
            "flags": "",
        },
        columns=list(LAYER_COLUMNS),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(0.01, 100), min_size=1, max_size=4), min_size=2, max_size=5))
def test_merged_campaigns_are_the_statistics_of_all_their_runs(campaigns):
    merged = validate_layers(merge_repeats(rows_of(campaigns)), source="merged")
    runs = np.concatenate(campaigns)
    assert len(merged) == 1
    assert merged["repeats"].item() == len(runs)
    np.testing.assert_allclose(merged["latency_ms"].item(), runs.mean(), rtol=RTOL_STATISTICS)
    np.testing.assert_allclose(
        merged["latency_std_ms"].item(), runs.std(ddof=1), rtol=RTOL_STATISTICS, atol=ATOL_STATISTICS
    )


def test_a_single_row_keeps_what_it_states():
    table = rows_of([[1.0, 2.0, 3.0]])
    pd.testing.assert_frame_equal(merge_repeats(table), table)


def test_an_unknown_spread_of_several_runs_stays_unknown():
    table = rows_of([[1.0, 2.0], [3.0]])
    table.loc[0, "latency_std_ms"] = np.nan
    merged = merge_repeats(table)
    assert merged["repeats"].item() == 3
    assert np.isnan(merged["latency_std_ms"].item())


def test_other_layers_are_left_as_they_are():
    other = rows_of([[5.0, 7.0]], layer="other").assign(position=1)
    merged = merge_repeats(pd.concat([rows_of([[1.0], [2.0]]), other], ignore_index=True))
    assert merged["layer"].tolist() == ["conv", "other"]
    assert merged["latency_ms"].tolist() == [1.5, 6.0]
    assert merged["repeats"].tolist() == [2, 2]
