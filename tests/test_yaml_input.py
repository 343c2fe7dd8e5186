from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.yaml_input import StrictModel, read_model


class Inner(StrictModel):
    depth: int


class Example(StrictModel):
    name: str
    count: int
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\ncount: 1\ncolour: x\n", r"f\.yaml:3: expected one of name, .*, got unknown key 'colour'"),
        ("name: a\n", r"f\.yaml: expected the key 'count', got no such key"),
        ("name: a\ncount: many\n", r"f\.yaml:2: expected count: .*integer, got 'many'"),
        ("name: a\ncount: 1.5\n", r"f\.yaml:2: expected count: .*integer, got 1.5"),
        ("name: a\ncount: 1\ncount: 2\n", r"f\.yaml:3: expected valid YAML, got key 'count' given twice"),
        ("name: [a\n", r"f\.yaml:2: expected valid YAML"),
        ("- a\n", r"f\.yaml:1: expected a YAML mapping, got a list"),
        ("", r"f\.yaml:1: expected a YAML mapping, got an empty file"),
        ("name: a\ncount: 1\ninner:\n  depth: x\n", r"f\.yaml:4: expected inner.depth: .*integer, got 'x'"),
        ("name: !!python/object:os.system a\ncount: 1\n", r"f\.yaml:1: expected valid YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_model(path, Example)


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml: expected a YAML file, got no file"):
        read_model(tmp_path / "nothing.yaml", Example)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InputError, match="UTF-8"):
        read_model(tmp_path / "binary.yaml", Example)


def test_a_good_file_with_bom_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: a\r\ncount: 1\r\n")
    assert read_model(path, Example) == Example(name="a", count=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("? [a, b]\n: 1\n", r"f\.yaml:1: expected valid YAML, got a key that is no text"),
        ("name: 2020-13-45\ncount: 1\n", r"f\.yaml: expected valid YAML, got month must be in"),
        ("name: &a [*a]\ncount: 1\n", r"f\.yaml: expected valid YAML"),
        ("name: a\ncount: 1e3\n", r"f\.yaml:2: expected count: .*write it as 1.0e\+9.*, got '1e3'"),
        ("name: a\nconut: 1\n", r"f\.yaml:2: expected one of .*, got unknown key 'conut'"),
    ],
)
def test_corners_of_yaml_are_one_line_too(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_model(path, Example)
