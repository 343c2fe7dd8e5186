import pickle

import pytest

from accelperf.errors import AccelperfError, InputError, exit_on_error


def test_an_error_is_built_from_the_facts() -> None:
    assert str(InputError("a", "b", file="f.csv", line=3)) == "f.csv:3: expected a, got b"
    assert str(InputError("a", "b", file="f.csv")) == "f.csv: expected a, got b"
    assert str(InputError("a", "b")) == "expected a, got b"


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(InputError("a", "b", file="f.csv", line=3)))
    assert str(error) == "f.csv:3: expected a, got b"
    assert (error.file, error.line) == ("f.csv", 3)


def test_bad_input_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info, exit_on_error():
        raise InputError("a", "b", file="f.csv", line=3)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "error: f.csv:3: expected a, got b\n"


def test_debug_lets_the_traceback_through_and_defects_keep_theirs() -> None:
    with pytest.raises(AccelperfError), exit_on_error(debug=True):
        raise InputError("a", "b")
    with pytest.raises(ZeroDivisionError), exit_on_error():
        raise ZeroDivisionError


def test_a_field_of_any_length_makes_a_short_message() -> None:
    error = InputError("a number", "x" * 100_000, file="log.csv", line=3)
    assert str(error) == f"log.csv:3: expected a number, got {'x' * 2000}… (100000 characters)"
    again = pickle.loads(pickle.dumps(error))
    assert str(again).startswith("log.csv:3: expected a number, got xxx")
