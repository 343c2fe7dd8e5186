import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accelperf.analytic import NUMPY, latency_ms
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.models.means import get_mean, register_mean

OWN_MEAN = """
from accelperf.analytic import latency_terms
from accelperf.models.means import register_mean

@register_mean("{name}")
def compute_only(inputs, ops):
    return latency_terms(inputs, "tiled", ops).compute
"""


def test_means_by_name(features_of: Callable[..., FeatureMatrix]) -> None:
    inputs = features_of(5).latency_inputs()
    assert np.array_equal(get_mean("zero")(inputs, NUMPY), np.zeros(5))
    for variant in ("paper", "output_sized", "tiled"):
        assert np.array_equal(get_mean(variant)(inputs, NUMPY), latency_ms(inputs, variant))


def test_a_module_of_the_users_own_registers_a_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, features_of: Callable[..., FeatureMatrix]
) -> None:
    (tmp_path / "own_means_for_test.py").write_text(OWN_MEAN.format(name="compute_only_for_test"))
    monkeypatch.syspath_prepend(tmp_path)
    inputs = features_of(5).latency_inputs()
    mean = get_mean("compute_only_for_test", ["own_means_for_test"])
    assert np.all(mean(inputs, NUMPY) > 0)
    # A second import, as in another worker, is no second registration.
    del sys.modules["own_means_for_test"]
    get_mean("compute_only_for_test", ["own_means_for_test"])


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(InputError, match="'paper', taken by"):
        register_mean("paper")(lambda inputs, ops: inputs["groups"])
    with pytest.raises(InputError, match="'calibrated', the fitted roofline"):
        register_mean("calibrated")(lambda inputs, ops: inputs["groups"])


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(
        InputError, match=r"one of calibrated, .*output_sized, paper, tiled, zero.*'analytical'"
    ):
        get_mean("analytical")
    with pytest.raises(InputError, match=r"Python module that can be imported.*no_such_module_anywhere"):
        get_mean("paper", ["no_such_module_anywhere"])
