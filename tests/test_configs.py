"""Every configuration in conf/ composes, and says what it seems to say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from accelperf.evaluation.splits import SCHEMES
from accelperf.models.catalog import ESTIMATORS, create
from accelperf.settings import NO_GRID, configured, read_evaluation
from tests.conftest import ROOT

GRIDS = [name for name in configured(ROOT, "grid") if name != NO_GRID]


@pytest.fixture(scope="module", autouse=True)
def hydra() -> Iterator[None]:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        yield


def hyperparameters(key: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / f"conf/model/{key}.yaml").read_text(encoding="utf-8")))


def test_every_estimator_and_scheme_has_a_configuration() -> None:
    assert configured(ROOT, "model") == sorted(ESTIMATORS)
    assert configured(ROOT, "evaluation") == sorted(SCHEMES)


@pytest.mark.parametrize(("key", "scheme"), list(product(ESTIMATORS, SCHEMES)))
def test_configurations_compose(key: str, scheme: str) -> None:
    config = compose("config", overrides=[f"model={key}", f"evaluation={scheme}"])
    assert OmegaConf.to_container(config.model, resolve=True) == hyperparameters(key)
    assert config.evaluation.scheme == scheme
    assert read_evaluation(ROOT, scheme).scheme == scheme
    assert config.publish is False


@pytest.mark.parametrize("key", ESTIMATORS)
def test_every_hyperparameter_stands_in_its_file(key: str) -> None:
    estimator = create(key, hyperparameters(key))
    assert set(hyperparameters(key)) == set(type(estimator).Settings.model_fields)
    assert estimator.settings.model_dump() == hyperparameters(key)


@pytest.mark.parametrize(("grid", "key"), list(product(GRIDS, ESTIMATORS)))
def test_grids_hold_the_configured_value(grid: str, key: str) -> None:
    config = compose("config", overrides=[f"model={key}", f"grid={grid}"], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    assert config.hydra.mode.name == "MULTIRUN"
    axes = OmegaConf.to_container(config.hydra.sweeper.params, resolve=True)
    assert isinstance(axes, dict)
    assert axes
    for axis, text in axes.items():
        group, name = str(axis).split(".")
        assert group == "model"
        values = [yaml.safe_load(value) for value in str(text).split(",")]
        assert hyperparameters(key)[name] in values
        for value in values:
            create(key, hyperparameters(key) | {name: value})


@pytest.mark.parametrize(("grid", "key"), list(product(GRIDS, ESTIMATORS)))
def test_grids_follow_the_configuration(grid: str, key: str) -> None:
    # A grid that names its own values alone would make an edit of conf/model change nothing.
    text = (ROOT / f"conf/grid/{grid}/{key}.yaml").read_text(encoding="utf-8")
    for axis, values in yaml.safe_load(text)["hydra"]["sweeper"]["params"].items():
        assert f"${{{axis}}}" in str(values)
