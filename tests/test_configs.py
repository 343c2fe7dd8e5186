"""Every configuration in conf/ composes, and says what it seems to say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from accelperf import train
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
        # As Hydra reads them: to YAML itself, 1e-05 is text.
        override = OverridesParser.create().parse_override(f"{axis}={text}")
        values = list(override.sweep_iterator()) if override.is_sweep_override() else [override.value()]
        assert hyperparameters(key)[name] in values
        for value in values:
            create(key, hyperparameters(key) | {name: value})


@pytest.mark.parametrize(("grid", "key"), list(product(GRIDS, ESTIMATORS)))
def test_grids_follow_the_configuration(grid: str, key: str) -> None:
    # A grid that names its own values alone would make an edit of conf/model change nothing.
    text = (ROOT / f"conf/grid/{grid}/{key}.yaml").read_text(encoding="utf-8")
    for axis, values in yaml.safe_load(text)["hydra"]["sweeper"]["params"].items():
        assert f"${{{axis}}}" in str(values)


@pytest.mark.parametrize("key", ESTIMATORS)
def test_points_are_composed_as_hydra_composes_them(key: str) -> None:
    config = compose("config", overrides=[f"model={key}", "grid=paper"], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    axes = train._list_axes(config)
    assert axes is not None
    points = list(product(*axes.values()))
    composer = train._Composer(config)
    loader = GlobalHydra.instance().config_loader()
    for point in (points[0], points[len(points) // 3], points[-1]):
        composed, settings = composer(point)
        expected = loader.load_sweep_config(config, list(point))
        assert settings == OmegaConf.to_container(expected.model, resolve=True)
        assert composed.evaluation == expected.evaluation
        assert composed.hydra.runtime.choices == expected.hydra.runtime.choices


@pytest.mark.parametrize(
    ("key", "evaluations"),
    [
        # 25 kernels with L-BFGS; with Adam at 6 learning rates each.
        ("gp_zero", 25 + 150),
        ("gp_analytic", 25 + 150),
        # 3 shapes, 3 activations, 6 learning rates, the kernel of gp_analytic.
        ("gp_ann_mean", 54),
        # 4 shapes, 3 activations, 4 learning rates.
        ("ann", 48),
        # 4 numbers of trees, 4 depths, 4 learning rates.
        ("gtb", 64),
        ("adaboost", 64),
        ("xgboost", 64),
        ("linear", 1),
        ("standard", 1),
        # Not the paper's.
        ("gp_calibrated", 1),
    ],
)
def test_the_search_space_of_the_paper(
    key: str, evaluations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose("config", overrides=[f"model={key}", "grid=paper"], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    points, estimators = train._check_points(config, train._list_axes(config))
    assert estimators == [key]
    assert points is not None
    assert len({point.configuration.fingerprint("0") for point in points}) == evaluations


def test_the_mean_network_takes_the_best_kernel_of_the_analytic_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernels() -> list[str]:
        overrides = ["model=gp_ann_mean", "grid=paper"]
        config = compose("config", overrides=overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        return (train._list_axes(config) or {})["model.kernel"]

    monkeypatch.chdir(tmp_path)
    configured = f"model.kernel={hyperparameters('gp_ann_mean')['kernel']}"
    assert kernels() == [configured]
    (tmp_path / "results/gp_analytic").mkdir(parents=True)
    (tmp_path / "results/gp_analytic/best.yaml").write_text("settings: {kernel: rbf*linear}")
    assert kernels() == [configured, "model.kernel=rbf*linear"]


@pytest.mark.parametrize("launcher", configured(ROOT, "hydra/launcher"))
def test_launchers_compose_and_have_their_plugin(launcher: str) -> None:
    overrides = ["model=linear", f"hydra/launcher={launcher}"]
    config = compose("config", overrides=overrides, return_hydra_config=True)
    module, _, name = config.hydra.launcher._target_.rpartition(".")
    known = set(config.hydra.launcher) - {"_target_"}
    launcher_class = getattr(import_module(module), name)
    assert launcher_class(**{key: config.hydra.launcher[key] for key in known if key != "submitit_folder"})


@pytest.mark.parametrize(
    ("overrides", "folder"),
    [
        (["model=linear", "grid=quick"], "linear_quick"),
        (["grid=paper", "model=gp_zero", "publish=true", "nested=[loo]"], "gp_zero_paper"),
        (["model=linear", "grid=quick", "evaluation=leave_one_shape_out"], r"linear_quick_[0-9a-f]{8}"),
        (["model=linear"], "linear"),
    ],
)
def test_a_sweep_has_a_folder_by_what_was_typed(overrides: list[str], folder: str) -> None:
    def named(texts: list[str]) -> str:
        return str(compose("config", overrides=texts, return_hydra_config=True).hydra.sweep.dir)

    assert re.fullmatch(f"multirun/{folder}", named(overrides))
    assert named(overrides) == named(overrides[::-1])
    assert named(overrides) != named(
        [*overrides, "model.seed=4"] if "gp" in folder else [*overrides, "model.alpha=4"]
    )
