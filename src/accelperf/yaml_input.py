"""YAML files read into validated objects, with the line of whatever is wrong in them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from accelperf.errors import InputError


class StrictModel(BaseModel):
    """Base of everything read from YAML: frozen, no unknown keys, no NaN, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe loader that refuses a key given twice (plain YAML keeps the last one silently)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key that is no text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key.value!r} given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _key_lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    lines: dict[tuple[str, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            lines |= _key_lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*path, str(index))
            lines[here] = value.start_mark.line + 1
            lines |= _key_lines(value, here)
    return lines


def read_mapping(path: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Read a YAML file whose top level is a mapping.

    Parameters
    ----------
    path : Path
        The file, UTF-8.

    Returns
    -------
    mapping : dict
        Its content.
    lines : dict
        Line number of every key path, such as ``("platforms", "m32p32")``.

    Raises
    ------
    InputError
        If the file is missing, is not UTF-8 or YAML, repeats a key, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("a YAML file", "no file of this name", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("a readable UTF-8 YAML file", str(error), file=path) from None
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - derives from SafeLoader
        lines = _key_lines(yaml.compose(text, Loader=yaml.SafeLoader))
    except (ValueError, RecursionError) as error:
        # An impossible date, or an alias inside of what it stands for.
        raise InputError("valid YAML", str(error), file=path) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = None if mark is None else mark.line + 1
        raise InputError("valid YAML", problem, file=path, line=line) from None
    if not isinstance(data, dict):
        got = "an empty file" if data is None else f"a {type(data).__name__}"
        raise InputError("a YAML mapping", got, file=path, line=1)
    return {str(key): value for key, value in data.items()}, lines


@dataclass(frozen=True)
class Problem:
    """The first thing wrong in a mapping.

    Attributes
    ----------
    path : tuple of str
        Key path; empty where several keys together are wrong.
    kind : {"unknown", "missing", "value"}
        What is wrong with it.
    message : str
        What would be right, of a value.
    got : str
        The value, as text.
    """

    path: tuple[str, ...]
    kind: Literal["unknown", "missing", "value"]
    message: str
    got: str


def first_problem(error: ValidationError) -> Problem:
    """Return the first thing that a validation found wrong, unknown keys before all others."""
    # A misspelt key is both unknown and missing; the unknown one says more.
    first = min(_without_other_branches(error.errors()), key=lambda e: e["type"] != "extra_forbidden")
    kind: Literal["unknown", "missing", "value"] = "value"
    if first["type"] == "extra_forbidden":
        kind = "unknown"
    elif first["type"] == "missing":
        kind = "missing"
    message = first["msg"].removeprefix("Value error, ")
    message = (message[0].lower() + message[1:]).removeprefix("input should be ").removeprefix("should be ")
    got = "a mapping" if isinstance(first["input"], dict) else repr(first["input"])
    if isinstance(first["input"], str) and _looks_like_a_number(first["input"]):
        message += " (YAML 1.1 reads this as text; write it as 1.0e+9)"
    return Problem(tuple(str(part) for part in first["loc"]), kind, message, got)


def _without_other_branches(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out what a union's other branches say where a mapping was given for its model."""
    meant = [error for error in errors if not isinstance(error["input"], dict) or error["type"] == "missing"]
    return meant or errors


def _is_branch(part: str) -> bool:
    """Return whether a part of a location is pydantic's name of a union's branch, no key of the file."""
    return part in ("float", "int", "str") or part[:1].isupper() or not part.replace("_", "").isalnum()


def _looks_like_a_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_model(
    model: type[Model],
    data: dict[str, Any],
    *,
    file: Path,
    lines: dict[tuple[str, ...], int] | None = None,
) -> Model:
    """Validate a mapping into a model; the first thing wrong becomes an `InputError` with its line.

    Parameters
    ----------
    model : type
        The pydantic model.
    data : dict
        What was read.
    file : Path
        Where it came from.
    lines : dict, optional
        Lines of the key paths, as from `read_mapping`.

    Returns
    -------
    Model
        The validated, frozen object.

    Raises
    ------
    InputError
        Names the file, the line, the key, what was expected there and what came.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = first_problem(error)
        path = problem.path
        keys = tuple(part for part in path if not _is_branch(part))
        line = None
        for length in range(len(keys), 0, -1):
            if lines and keys[:length] in lines:
                line = lines[keys[:length]]
                break
        key = ".".join(keys)
        if problem.kind == "unknown":
            expected = f"one of {', '.join(model.model_fields)}" if len(keys) == 1 else "a known key"
            raise InputError(expected, f"unknown key {key!r}", file=file, line=line) from None
        if problem.kind == "missing":
            raise InputError(f"the key {key!r}", "no such key", file=file, line=line) from None
        raise InputError(f"{key}: {problem.message}", problem.got, file=file, line=line) from None


def read_model(path: Path, model: type[Model]) -> Model:
    """Read a YAML file into a validated model (see `read_mapping` and `parse_model`)."""
    data, lines = read_mapping(path)
    return parse_model(model, data, file=path, lines=lines)
