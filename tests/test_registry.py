"""The model registry: who becomes champion, and that what it holds predicts as the bundle does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mlflow import MlflowClient

from accelperf.bundle import load_bundle, save_bundle
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create
from accelperf.predict import find_model
from accelperf.registry import MODEL_CARD, NAME, Candidate, download_bundle, pyfunc, register
from accelperf.serving import to_request
from accelperf.tracking import Store, open_store
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]
SCHEME = "leave_one_network_out"

# MLflow's registry uses what SQLAlchemy has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    # Making the tables takes longer than most of these tests.
    MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def root(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MLFLOW_TRACKING_URI", "DVC_ROOT", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mlflow.db").write_bytes(template.read_bytes())
    return tmp_path


class Contest:
    """Candidates for one store, all fitted to the same two dozen rows."""

    def __init__(self, root: Path, features: FeatureMatrix) -> None:
        self.root, self.features = root, features
        self.store: Store = open_store(root)

    def candidate(self, alpha: float, mape: float, *, md5: str = "rows") -> Candidate:
        folder = self.root / f"models{alpha}{md5}/linear"
        metrics = {SCHEME: {"mae_ms": 2 * mape, "mape": mape, "within_10pct": 1 - mape}}
        save_bundle(
            create("linear", {"alpha": alpha}).fit(self.features),
            folder,
            estimator="linear",
            settings={"alpha": alpha},
            features=self.features,
            features_md5=md5,
            metrics=metrics,
        )
        with self.store.run("evaluated", {}) as run:
            pass
        return Candidate("linear", folder, run.run_id, metrics, md5)

    def enter(self, candidate: Candidate, metric: str = "mape") -> str:
        return register(self.store, candidate, self.features, "# The card", scheme=SCHEME, metric=metric)

    def version(self, alias: str) -> str:
        return str(self.store.client.get_model_version_by_alias(NAME, alias).version)


@pytest.fixture
def contest(root: Path, features_of: Maker) -> Contest:
    return Contest(root, features_of(24))


def test_only_a_better_challenger_becomes_champion(contest: Contest) -> None:
    assert contest.enter(contest.candidate(1.0, 0.2)).startswith("accelperf@champion is version 1 (linear")
    worse = contest.candidate(2.0, 0.3)
    assert contest.enter(worse) == (
        "accelperf@challenger is version 2 (linear, leave_one_network_out mape 0.3); it is not better than "
        "@champion, version 1"
    )
    assert contest.version("champion") == "1"
    assert contest.version("challenger") == "2"
    contest.enter(contest.candidate(3.0, 0.2))
    assert contest.version("champion") == "1"  # as good is not better
    contest.enter(contest.candidate(4.0, 0.1))
    assert contest.version("champion") == "4"
    # The same bundle again makes no further version.
    contest.enter(worse)
    assert contest.version("challenger") == "2"
    assert len(contest.store.client.search_model_versions(f"name = '{NAME}'")) == 4


def test_larger_shares_are_better(contest: Contest) -> None:
    contest.enter(contest.candidate(1.0, 0.2), "within_10pct")
    contest.enter(contest.candidate(2.0, 0.3), "within_10pct")
    assert contest.version("champion") == "1"
    contest.enter(contest.candidate(3.0, 0.1), "within_10pct")
    assert contest.version("champion") == "3"


def test_a_champion_stays_and_one_of_other_rows_gives_way(contest: Contest) -> None:
    first = contest.candidate(1.0, 0.2)
    contest.enter(first)
    assert contest.enter(first) == "accelperf@champion stays version 1 (linear)"
    # On other rows figures cannot be compared.
    contest.enter(contest.candidate(1.0, 0.4, md5="others"))
    assert contest.version("champion") == "2"


def test_what_is_registered_predicts_as_the_bundle(contest: Contest, tmp_path: Path) -> None:
    candidate = contest.candidate(1.0, 0.2)
    contest.enter(candidate)
    found = contest.store.client.get_model_version_by_alias(NAME, "champion")
    assert found.description == "# The card"
    assert found.run_id == candidate.run_id
    assert found.tags["estimator"] == "linear"
    folder = Path(contest.store.client.download_artifacts(found.run_id, "model", str(tmp_path)))
    assert (folder / MODEL_CARD).read_text() == "# The card"
    assert not list(folder.rglob("*.pkl"))
    requirements = (folder / "requirements.txt").read_text()
    assert "numpy==" in requirements
    assert "tensorflow" not in requirements

    expected = load_bundle(candidate.bundle).predictor.predict(contest.features).median_ms
    bundle = load_bundle(download_bundle("models:/accelperf@champion", contest.root, tmp_path / "one"))
    np.testing.assert_allclose(
        bundle.predictor.predict(contest.features).median_ms, expected, rtol=EXACT_ALGEBRA
    )
    numbered = download_bundle("models:/accelperf/1", contest.root, tmp_path / "two")
    assert load_bundle(numbered).manifest == bundle.manifest
    model = pyfunc.load_model(str(folder))
    np.testing.assert_allclose(
        model.predict(to_request(contest.features))["latency_ms"], expected, rtol=EXACT_ALGEBRA
    )


def test_the_champion_predicts(contest: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = contest.candidate(1.0, 0.2)
    contest.enter(candidate)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{contest.root / 'mlflow.db'}")
    model = find_model("models:/accelperf@champion")
    assert (model.estimator, model.where) == ("linear", "models:/accelperf@champion")
    np.testing.assert_allclose(
        model.predictor.predict(contest.features).median_ms,
        load_bundle(candidate.bundle).predictor.predict(contest.features).median_ms,
        rtol=EXACT_ALGEBRA,
    )
    with pytest.raises(InputError, match="a registered model 'models:/accelperf@nobody'"):
        find_model("models:/accelperf@nobody")


def test_a_run_that_the_store_does_not_have_is_replaced(contest: Contest) -> None:
    candidate = contest.candidate(1.0, 0.2)
    contest.enter(Candidate("linear", candidate.bundle, "0" * 32, candidate.metrics, "rows"))
    run = contest.store.client.get_run(
        contest.store.client.get_model_version_by_alias(NAME, "champion").run_id
    )
    assert run.info.status == "FINISHED"
    assert run.data.metrics[f"{SCHEME}_mape"] == 0.2


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("models:/accelperf", r"an address models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("models:/accelperf@champion", r"a registered model 'models:/accelperf@champion'"),
        ("models:/accelperf/7", r"a registered model"),
    ],
)
def test_an_address_of_nothing(uri: str, message: str, root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        download_bundle(uri, root, tmp_path / "target")
