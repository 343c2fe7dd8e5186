"""Records of trials and the table of a sweep."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from accelperf.layers import write_table
from accelperf.trials import (
    FAILED,
    FINISHED,
    Configuration,
    Trial,
    best_trial,
    configuration_hash,
    finished_trial,
    point_folder,
    ranked,
    read_predictions,
    read_trial,
    read_trials,
    trials_table,
    varying,
    write_best,
)


def trial(number: int, mae_ms: float | None = None, **changes: Any) -> Trial:
    """Return a trial; a failed one without an error."""
    given: dict[str, Any] = {
        "number": number,
        "estimator": "linear",
        "settings": {"alpha": float(number)},
        "scheme": "loo",
        "keep_twins": False,
        "point": f"linear alpha={number}",
        "status": FAILED if mae_ms is None else FINISHED,
        "metrics": {} if mae_ms is None else {"scheme": "loo", "mae_ms": mae_ms, "n_rows": 3},
        "sweep": "one",
    }
    return Trial(**(given | changes))


def test_best_first_ties_by_place_and_failures_last() -> None:
    trials = [trial(0), trial(1, 0.2), trial(2, 0.1), trial(3, 0.1)]
    assert [each.number for each in ranked(trials)] == [2, 3, 1, 0]
    best = best_trial(trials)
    assert best is not None
    assert best.number == 2


def test_there_is_no_best_of_failures_or_of_different_schemes() -> None:
    assert best_trial([trial(0), trial(1)]) is None
    other = trial(1, 0.1, scheme="leave_one_shape_out")
    assert best_trial([trial(0, 0.2), other]) is None
    assert [each.number for each in ranked([trial(0, 0.2), other])] == [0, 1]


def test_table_keeps_hyperparameters_before_metrics_whichever_trial_has_them() -> None:
    other = trial(1, 0.1, estimator="gp_zero", settings={"kernel": "rbf", "modules": ["a", "b"]})
    table = trials_table([trial(0, 0.2), other, trial(2, error="it failed")])
    columns = list(table.columns)
    assert columns[:2] == ["estimator", "scheme"]
    assert columns[-3:] == ["status", "error", "configuration"]
    assert columns.index("kernel") < columns.index("mae_ms")
    assert columns.index("alpha") < columns.index("mae_ms")
    assert table["modules"][0] == '["a", "b"]'
    assert list(table["error"]) == ["", "", "it failed"]
    assert np.isnan(table["mae_ms"][2])


def test_configuration_hash_knows_values_not_their_order() -> None:
    first = configuration_hash("linear", {"alpha": 1.0, "beta": 2})
    assert first == configuration_hash("linear", {"beta": 2, "alpha": 1.0})
    assert first != configuration_hash("linear", {"beta": 2, "alpha": 1.5})
    assert first != configuration_hash("ridge", {"alpha": 1.0, "beta": 2})


def test_records_are_found_by_their_sweep_in_the_order_of_the_grid(tmp_path: Path) -> None:
    given = [trial(10, 0.1), trial(2, 0.30000000000000004), trial(3, 0.5, sweep="another")]
    for each in given:
        each.write(point_folder(tmp_path, each.fingerprint))
    found = read_trials(tmp_path, "one")
    assert list(found.values()) == [given[1], given[0]]
    assert [folder.name for folder in found] == [given[1].fingerprint, given[0].fingerprint]
    assert list(read_trials(tmp_path, "one", skip=set(found))) == []


def test_the_fingerprint_knows_everything_that_decides_the_result() -> None:
    base = trial(0, 0.1, features_md5="1", version="1", source="1")
    changes: list[dict[str, Any]] = [
        {"estimator": "ridge"},
        {"settings": {"alpha": 0.5}},
        {"scheme": "leave_one_network_out"},
        {"keep_twins": True},
        {"features_md5": "2"},
        {"version": "2"},
        {"source": "2"},
    ]
    hashes = {base.fingerprint, *(replace(base, **change).fingerprint for change in changes)}
    assert len(hashes) == len(changes) + 1
    for change in ({"number": 4}, {"point": "x"}, {"sweep": "two"}, {"run_id": "r"}, {"status": FAILED}):
        assert replace(base, **change).fingerprint == base.fingerprint


def test_lbfgs_is_the_same_at_every_learning_rate() -> None:
    def fingerprint(**settings: Any) -> str:
        return Configuration("gp_zero", settings, "loo").fingerprint("0")

    assert fingerprint(optimizer="lbfgs", learning_rate=0.1) == fingerprint(
        optimizer="lbfgs", learning_rate=1
    )
    assert fingerprint(optimizer="adam", learning_rate=0.1) != fingerprint(optimizer="adam", learning_rate=1)


def test_a_configuration_is_complete_where_it_is_valid() -> None:
    assert Configuration.complete("linear", {}, "loo", False).settings == {"alpha": 0.0}
    assert Configuration.complete("linear", {"alpha": 2}, "loo", False).settings == {"alpha": 2.0}
    assert Configuration.complete("linear", {"alpha": -2}, "loo", False).settings == {"alpha": -2}


def test_only_finished_trials_with_predictions_and_an_untouched_record_count(tmp_path: Path) -> None:
    finished, failed = trial(0, 0.1), trial(1)
    for each in (finished, failed):
        each.write(point_folder(tmp_path, each.fingerprint))
    folder = point_folder(tmp_path, finished.fingerprint)
    assert finished_trial(tmp_path, finished.fingerprint) is None
    (folder / "predictions.csv").write_text("")
    assert finished_trial(tmp_path, finished.fingerprint) == finished
    assert read_trial(point_folder(tmp_path, failed.fingerprint)) == failed
    assert finished_trial(tmp_path, failed.fingerprint) is None
    assert finished_trial(tmp_path, "0" * 16) is None

    record = (folder / "result.json").read_text()
    assert json.loads(record)["fingerprint"] == finished.fingerprint
    for text in (record.replace('"alpha": 0.0', '"alpha": 0.5'), record[:50], "[]", "{}"):
        (folder / "result.json").write_text(text)
        assert finished_trial(tmp_path, finished.fingerprint) is None


def test_hyperparameters_in_which_trials_differ() -> None:
    first = trial(0, settings={"kernel": "rbf", "ard": True, "modules": ["a"]})
    second = trial(1, settings={"kernel": "rbf", "ard": False, "modules": ["b"], "seed": 1})
    assert varying([first, second]) == ["ard", "modules", "seed"]
    assert varying([first]) == []


def test_predictions_are_read_as_they_were_written(tmp_path: Path) -> None:
    predictions = pd.DataFrame(
        {
            "accelerator": ["NA", "007"],
            "network": ["null", "net"],
            "layer": ["nan", "1"],
            "position": [0, 1],
            "fold": ["0", "01"],
            "latency_ms": [0.1 + 0.2, 1e-17],
            "predicted_ms": [1 / 3, 2.0],
            "std_ms": [np.nan, np.nan],
            "lower_ms": [np.nan, np.nan],
            "upper_ms": [np.nan, np.nan],
        }
    )
    write_table(predictions, tmp_path / "predictions.csv")
    read = read_predictions(tmp_path)
    for name in ("accelerator", "network", "layer", "fold"):
        assert list(read[name]) == list(predictions[name])
    for name in ("latency_ms", "predicted_ms"):
        np.testing.assert_array_equal(read[name], predictions[name])
    assert read["std_ms"].isna().all()


def test_best_configuration_is_plain_yaml(tmp_path: Path) -> None:
    write_best(trial(4, 0.25), tmp_path / "best.yaml")
    assert yaml.safe_load((tmp_path / "best.yaml").read_text()) == {
        "estimator": "linear",
        "configuration": trial(4).configuration,
        "scheme": "loo",
        "mae_ms": 0.25,
        "settings": {"alpha": 4.0},
    }
