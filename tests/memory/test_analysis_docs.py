"""The commands and programs of ``docs/memory.md`` print what the page says, and its pictures are ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from accelperf.stages import memory_report as stage
from tests.conftest import ROOT

PAGE = (ROOT / "docs/memory.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
PROGRAMS = re.findall(r"^```python\n((?:.*\n)*?)```\n\n```text\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
LARGEST_PICTURE_BYTES = 100_000
FONT_RENDERING = 0.02
"""Absolute, mean of colours from 0 to 1: what other versions of the font renderer change."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sample data, where outputs may be written."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "data").mkdir()
    for name in ("data/raw", "data/platforms", "tests"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    return folder


def run(words: list[str], folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return result.stdout


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_says(command: str, output: str, project: Path) -> None:
    assert run(["bash", "-c", command], project) == output


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_program_prints_what_the_page_says(program: str, output: str, project: Path) -> None:
    assert run([sys.executable, "-c", program], project) == output


def test_the_page_has_commands_programs_and_pictures() -> None:
    assert (len(COMMANDS), len(PROGRAMS)) == (2, 2)
    links = re.findall(r"\]\(((?!http)[^)#]+)", PAGE)
    assert len(links) >= 4
    for link in links:
        assert (ROOT / "docs" / link).is_file(), link


def test_the_pictures_are_those_of_the_samples(tmp_path: Path) -> None:
    stage.run([ROOT / "data/raw/memory/model-u280"], tmp_path)
    for name in ("throughput_by_stride", "page_states", "refresh"):
        committed = ROOT / "docs/images" / f"memory_{name}.png"
        assert committed.stat().st_size < LARGEST_PICTURE_BYTES
        ours, drawn = imread(committed), imread(tmp_path / f"{name}.png")
        assert ours.shape == drawn.shape
        assert np.mean(np.abs(ours - drawn)) < FONT_RENDERING
