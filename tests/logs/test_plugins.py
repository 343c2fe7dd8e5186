"""Readers that other packages offer through entry points."""

from __future__ import annotations

import re
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.logs import PLUGIN_GROUP, READERS, all_readers, read_profile
from tests.conftest import ROOT
from tests.logs.samples import PLATFORMS, RUN, write_log

GOOD = next(
    block
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "logs.md").read_text(), re.DOTALL)
    if 'name = "cycles"' in block
)
"""The example of the documentation."""

LOG = "CYCLES\nconv1 8 16 32 2000\nconv2 8 32 32 4000\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return the function that installs a package with an entry point for this test."""

    def install(code: str, *, module: str, value: str | None = None, entry: str = "cycles") -> None:
        site = tmp_path / "site"
        info = site / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{PLUGIN_GROUP}]\n{entry} = {value or module}\n")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)
        invalidate_caches()

    return install


def write(folder: Path) -> Path:
    return write_log(folder / "logs", LOG, run=RUN, name="cycles.log")


def test_a_plug_in_reads_its_format(install, tmp_path):
    install(GOOD, module="accelperf_test_good")
    assert list(all_readers()) == [*(reader.name for reader in READERS), "cycles"]
    table, (report,) = read_profile(write(tmp_path), PLATFORMS)
    assert table["layer"].tolist() == ["conv1", "conv2"]
    assert table["latency_ms"].tolist() == [0.01, 0.02]
    assert (report.format, report.rows_kept) == ("cycles", 2)


def test_an_error_of_the_input_is_a_reason_of_a_plug_in_not_an_end(install, tmp_path):
    code = "from accelperf.errors import InputError\nname = 'strict'\nread = print\n"
    code += "def recognises(path):\n    raise InputError('a first line 42', 'none', file=path)\n"
    install(code, module="accelperf_test_strict")
    table, (report,) = read_profile(write_log(tmp_path / "native"), PLATFORMS)
    assert (report.format, len(table)) == ("native", 2)
    with pytest.raises(InputError, match=r"got none of them .*strict: expected a first line 42, got none"):
        read_profile(write(tmp_path), PLATFORMS)


BROKEN = {
    "missing module": ("import no_such_module\n", None,
                       r"plug-in of accelperf_test_bad 1\.2 .*ModuleNotFoundError: No module named 'no_such"),
    "error at import": ("raise RuntimeError('two\\nlines')\n", None, r"accelperf_test_bad 1\.2.*: two$"),
    "no such object": ("", "accelperf_test_bad:Reader", r"accelperf_test_bad 1\.2 .*AttributeError"),
    "no reader": ("name = 'x'\n", None, r"accelperf_test_bad 1\.2 .*one without recognises, read"),
    "no name": ("name = 3\nrecognises = read = print\n", None, r"accelperf_test_bad 1\.2 .*a name, got 3"),
    "name taken": ("name = 'native'\nrecognises = read = print\n", None,
                   r"another name than 'native', which accelperf has, got .*accelperf_test_bad 1\.2"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_named(install, tmp_path, case):
    code, value, message = BROKEN[case]
    install(code, module="accelperf_test_bad", value=value)
    with pytest.raises(InputError, match=message) as caught:
        read_profile(write_log(tmp_path / "logs"), PLATFORMS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "failing"),
    [
        ("def recognises(path): 1 / 0\ndef read(files, run): ...\n", "recognises"),
        ("def recognises(path): return None\ndef read(files, run): 1 / 0\n", "read"),
    ],
)
def test_a_plug_in_that_fails_is_named_with_the_log(install, tmp_path, code, failing):
    install("name = 'bad'\n" + code, module="accelperf_test_fails")
    path = write(tmp_path)
    with pytest.raises(
        InputError, match=r"cycles\.log: .*accelperf_test_fails 1\.2 \(format bad\), got ZeroDivisionError"
    ) as caught:
        read_profile(path, PLATFORMS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError), failing
