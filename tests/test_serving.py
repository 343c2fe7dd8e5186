"""The served model: requests as people send them, checked in the process and over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from accelperf.bundle import save_bundle
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create
from accelperf.registry import save_model
from accelperf.serving import INPUTS, to_features, to_request
from tests.conftest import ROOT, make_features
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]
START_LIMIT_S = 120
ANSWER_LIMIT_S = 30


def test_requests_in_any_order_and_type_are_the_same_rows(features_of: Maker) -> None:
    features = features_of(6)
    request = to_request(features)
    for variant in (
        request[request.columns[::-1]],
        request.astype({"groups": "int64", "kernel_height": "int64"}),
        request.assign(surplus="x"),
        request.set_index(np.arange(6) + 7),
    ):
        np.testing.assert_array_equal(to_features(variant).parameters, features.parameters)
    assert list(to_features(request).table["accelerator"]) == list(features.table["accelerator"])
    assert set(to_features(request.drop(columns="accelerator")).table["accelerator"]) == {"unknown"}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("input_channels", np.nan, r"request: expected column 'input_channels': a whole number, got .*nan"),
        ("input_channels", 2.5, r"column 'input_channels': a whole number, got .*2\.5.* in row 1"),
        ("logic_clock_mhz", np.inf, r"column 'logic_clock_mhz': a number, got .*inf"),
        ("logic_clock_mhz", "fast", r"column 'logic_clock_mhz': a number, got 'fast' in row 1"),
        ("unrolled_loop", None, r"column 'unrolled_loop': a text, got None in row 1"),
        ("unrolled_loop", "rows", r"unrolled_loop"),
        ("memory_efficiency", -1.0, r"memory_efficiency"),
        ("input_channels", None, r"column 'input_channels': a whole number"),
    ],
)
def test_wrong_values_name_their_column(column: str, value: Any, message: str, features_of: Maker) -> None:
    request = to_request(features_of(3)).astype({column: object})
    request.loc[1, column] = value
    with pytest.raises(InputError, match=message):
        to_features(request)


@pytest.mark.parametrize("column", INPUTS)
def test_a_missing_column_is_named(column: str, features_of: Maker) -> None:
    with pytest.raises(InputError, match=f"a column '{column}', got none"):
        to_features(to_request(features_of(3)).drop(columns=column))


class Served:
    """A model behind `mlflow models serve` on the loopback interface."""

    def __init__(self, url: str, features: FeatureMatrix, predicted: Any) -> None:
        self.url, self.features, self.predicted = url, features, predicted

    def post(self, records: list[dict[str, Any]]) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.url}/invocations",
            json.dumps({"dataframe_records": records}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    features = make_features(24)
    predictor = create("gp_calibrated", {"restarts": 0, "steps": 20}).fit(features)
    save_bundle(
        predictor,
        folder / "gp_calibrated",
        estimator="gp_calibrated",
        settings={},
        features=features,
        features_md5="rows",
        metrics={},
    )
    save_model(folder / "gp_calibrated", features, "# The card", folder / "model")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--model-uri", str(folder / "model")]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    # The server finds its worker on PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait(f"http://127.0.0.1:{port}/ping", process, folder / "log")
            yield Served(f"http://127.0.0.1:{port}", features, predictor.predict(features))
        finally:
            os.killpg(process.pid, 15)
            process.wait(timeout=ANSWER_LIMIT_S)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=1)
        except OSError:
            # Refused at once while nobody listens; the wait is for the port, not for a time.
            process_event(process)
        else:
            return
    raise AssertionError(log.read_text())


def process_event(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process ends or a moment has passed."""
    try:
        process.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return


def test_answers_over_http_are_those_of_the_training_process(served: Served) -> None:
    records = to_request(served.features).to_dict("records")
    shuffled = [
        {name: int(value) if name == "groups" else value for name, value in reversed(record.items())}
        | {"surplus": "x"}
        for record in reversed(records)
    ]
    for sent, order in ((records, slice(None)), (shuffled, slice(None, None, -1))):
        status, answer = served.post(sent)
        assert status == 200
        table = pd.DataFrame(answer["predictions"])
        for name, expected in (
            ("latency_ms", served.predicted.median_ms),
            ("std_ms", served.predicted.std_ms),
            ("lower_ms", served.predicted.lower_ms),
            ("upper_ms", served.predicted.upper_ms),
        ):
            np.testing.assert_allclose(table[name], expected[order], rtol=EXACT_ALGEBRA)


def test_wrong_requests_get_a_4xx_with_the_name_of_the_column(served: Served) -> None:
    (record,) = to_request(served.features).to_dict("records")[:1]
    for wrong in (
        {**record, "input_channels": float("nan")},
        {**record, "input_channels": None},
        {**record, "input_channels": "many"},
        {name: value for name, value in record.items() if name != "input_channels"},
    ):
        status, answer = served.post([wrong])
        assert 400 <= status < 500
        assert "input_channels" in answer["message"]
