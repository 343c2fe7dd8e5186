"""run.yaml beside profiling logs."""

from __future__ import annotations

import pytest

from accelperf.errors import InputError
from accelperf.logs.run import read_run
from tests.logs.samples import PLATFORMS

GOOD = "origin: measured\nplatform: small\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("platform: small\n", "the key 'origin', got no such key"),
        ("origin: guessed\nplatform: small\n", r"run\.yaml:1: expected origin: .*measured.*got 'guessed'"),
        ("origin: measured\n", "either the key 'platform' or the key 'platforms', got neither"),
        (GOOD + "platforms: {a: large}\n", r"run\.yaml:3: expected either .*got both"),
        (GOOD + "colour: red\n", r"run\.yaml:3: expected one of origin, platform, .*unknown key 'colour'"),
        ("origin: measured\nplatform: vu9p\n", r"run\.yaml:2: .*one of large, small, got 'vu9p'"),
        ("origin: measured\nplatforms:\n  a: large\n  b: vu9p\n", r"run\.yaml:4: .*large, small, got 'vu9p'"),
        ("origin: measured\nplatforms: {}\n", r"run\.yaml:2: expected at least one platform"),
        (GOOD + "network: 50\n", r"run\.yaml:3: expected network: .*string, got 50"),
        (GOOD + "network: ' '\n", r"run\.yaml:3: expected network: a name"),
        ("- a\n", "expected a YAML mapping, got a list"),
    ],
)
def test_wrong_run_files(tmp_path, text, message):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_run(path, PLATFORMS)


def test_platform_of_a_configuration(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("origin: measured\nplatforms: {a: small, b: large}\nsource: the bench\n")
    run = read_run(path, PLATFORMS)
    assert run.platform("b", file=path).name == "large"
    with pytest.raises(InputError, match=r"log:7: .*listed under 'platforms' in .*one of a, b, got 'c'"):
        run.platform("c", file="log", line=7)
    with pytest.raises(InputError, match="this log names no configuration"):
        run.platform("", file="log")
