"""What each kind of predictor needs of a bundle: names, shapes, kinds and bounds, checked on loading.

A checksum says that a file is the one that was written, not who wrote it. So nothing that a bundle
says is used before it is known to be of the form that the predictor's formulas take for granted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from accelperf.analytic import VARIANTS
from accelperf.errors import InputError, known
from accelperf.models.kernels import KERNEL_NAMES
from accelperf.models.means import CALIBRATED, get_mean
from accelperf.models.perceptron import ACTIVATIONS
from accelperf.models.residual_process import AMPLITUDES, INPUT_GROUPS
from accelperf.models.roofline import OVERHEADS, TERMS, Structure
from accelperf.parameters import PARAMETER_NAMES

_COLUMNS = len(PARAMETER_NAMES)
_RATES = len(TERMS) + len(OVERHEADS)
_MOST_LAYERS = 64
_KIND_WORDS = {"f": "numbers", "i": "whole numbers", "U": "texts"}


class State:
    """The values and arrays of a predictor, with checks that name what is wrong.

    Parameters
    ----------
    values : Mapping
        Values from JSON.
    arrays : Mapping of str to array
        Arrays.
    modules : sequence of str
        Modules that may be imported.
    """

    def __init__(
        self, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], modules: Sequence[str]
    ) -> None:
        self.values = values
        self.arrays = arrays
        self.modules = modules
        self._sizes: dict[str, int] = {}

    def value(self, name: str) -> Any:
        """Return a value that must be there."""
        if name not in self.values:
            raise InputError(f"predictor.values.{name}", "nothing")
        return self.values[name]

    def number(self, name: str, *, least: float = -math.inf, above: float = -math.inf) -> float:
        """Return a number within bounds."""
        return _number(name, self.value(name), least, above)

    def numbers(self, name: str, count: int, *, least: float) -> None:
        """Check a list of numbers."""
        found = self.value(name)
        if not isinstance(found, list) or len(found) != count:
            raise InputError(f"predictor.values.{name}: {count} numbers", repr(found)[:60])
        for each in found:
            _number(name, each, least, -math.inf)

    def count(self, name: str, most: int) -> int:
        """Return a whole number from 1."""
        found = self.value(name)
        if type(found) is not int or not 1 <= found <= most:
            raise InputError(f"predictor.values.{name}: a whole number from 1 to {most}", repr(found)[:60])
        return found

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return a text that is one of some."""
        found = self.value(name) if default is None else self.values.get(name, default)
        if not isinstance(found, str) or found not in choices:
            raise InputError(
                f"predictor.values.{name}: one of {known(repr(each) for each in choices)}", repr(found)[:60]
            )
        return found

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        found = self.value(name)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise InputError(f"predictor.values.{name}: a list of texts", repr(found)[:60])
        return found

    def array(
        self,
        name: str,
        *shape: str | int,
        kind: str = "f",
        least: float = -math.inf,
        above: float = -math.inf,
        most: float = math.inf,
        optional: bool = False,
    ) -> NDArray[Any] | None:
        """Return an array of a kind and shape, its values within bounds.

        Sizes given by a name are the same wherever the name occurs.
        """
        if name not in self.arrays:
            if optional:
                return None
            raise InputError(f"an array {name}", f"only {known(self.arrays) or 'none'}")
        found = self.arrays[name]
        if found.dtype.kind != kind:
            raise InputError(f"array {name} of {_KIND_WORDS[kind]}", str(found.dtype))
        expected = tuple(self._sizes.get(size, size) if isinstance(size, str) else size for size in shape)
        fits = len(found.shape) == len(expected) and all(
            isinstance(size, str) or size == actual
            for size, actual in zip(expected, found.shape, strict=True)
        )
        if not fits:
            raise InputError(f"array {name} of shape {_shape(expected)}", _shape(found.shape))
        self._sizes |= {
            size: actual for size, actual in zip(shape, found.shape, strict=True) if isinstance(size, str)
        }
        if kind != "U" and found.size:
            low, high = found.min(), found.max()
            if low < least or low <= above or high > most:
                bound = f"above {above:g}" if above > -math.inf else f"of {least:g} or more"
                bound += "" if most == math.inf else f", up to {most:g}"
                raise InputError(f"array {name}: numbers {bound}", f"{low:g} to {high:g}")
        return found


def _number(name: str, found: object, least: float, above: float) -> float:
    if type(found) not in (int, float) or not found >= least or not found > above:  # type: ignore[operator]
        bound = f" above {above:g}" if above > -math.inf else f" of {least:g} or more"
        bound = "" if max(least, above) == -math.inf else bound
        raise InputError(f"predictor.values.{name}: a number{bound}", repr(found)[:60])
    return float(found)  # type: ignore[arg-type]


def _shape(sizes: Sequence[object]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


def check_state(
    kind: str,
    values: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    modules: Sequence[str] = (),
) -> None:
    """Check the values and arrays of a predictor of some kind.

    Parameters
    ----------
    kind : str
        `accelperf.models.base.Predictor.kind`.
    values, arrays : Mapping
        What its ``from_state`` gets.
    modules : sequence of str
        Modules that may be imported for its mean function.

    Raises
    ------
    InputError
        Without a file: the first thing that is missing, of another kind, shape or size.
    """
    if kind in _CHECKS:
        _CHECKS[kind](State(values, arrays, modules))


def _standard(state: State) -> None:
    state.choice("variant", VARIANTS)


def _scaling(state: State, columns: str | int = _COLUMNS) -> None:
    state.array("mean", columns)
    state.array("scale", columns, least=0)


def _linear(state: State) -> None:
    state.number("intercept")
    _scaling(state)
    state.array("coefficients", _COLUMNS)


def _perceptron(state: State) -> None:
    state.choice("activation", tuple(ACTIVATIONS))
    state.number("latency_mean")
    layers = state.count("layers", _MOST_LAYERS)
    for layer in range(layers):
        before: str | int = f"width {layer}" if layer else _COLUMNS
        width: str | int = f"width {layer + 1}" if layer < layers - 1 else 1
        state.array(f"weights_{layer}", before, width)
        state.array(f"biases_{layer}", width)


def _network(state: State) -> None:
    _scaling(state)
    state.number("latency_scale", least=0)
    _perceptron(state)


def _network_mean(state: State) -> None:
    _process(state, own_mean=False)
    _perceptron(state)


def _trees(state: State) -> None:
    state.choice("rule", ("sum", "weighted_median"))
    state.number("offset")
    state.array("weights", "trees")
    state.array("value", "nodes")
    state.array("threshold", "nodes")
    names = ("roots", "feature", "left", "right")
    most = len(state.arrays["value"]) - 1
    roots = state.array("roots", "trees", kind="i", least=0, most=most)
    feature = state.array("feature", "nodes", kind="i", least=-1, most=_COLUMNS - 1)
    children = [state.array(name, "nodes", kind="i", most=most) for name in names[2:]]
    if feature is None or roots is None or not len(roots):
        raise InputError("at least one tree", "none")
    inner = feature >= 0
    for name, child in zip(names[2:], children, strict=True):
        # Children after their parents: no row can walk in circles.
        if child is not None and np.any(child[inner] <= np.flatnonzero(inner)):
            raise InputError(f"array {name}: children after their parents", "others")


def _process(state: State, *, own_mean: bool = True) -> None:
    names = state.texts("kernels")
    operation = state.choice("operation", ("", "+", "*"))
    if len(names) != (1 if operation == "" else 2):
        raise InputError("predictor.values.kernels: one, or two with an operation", repr(names)[:60])
    state.number("noise_variance", least=0)
    state.number("residual_scale", least=0)
    state.choice("response", ("difference", "ratio"), "difference")
    _scaling(state)
    state.array("inputs", "rows", _COLUMNS)
    state.array("residuals", "rows")
    state.array("row_noise", "rows", least=0, optional=True)
    cholesky = state.array("cholesky", "rows", "rows", optional=True)
    if cholesky is not None and not np.all(np.diag(cholesky) > 0):
        raise InputError("array cholesky: numbers above 0 on the diagonal", "others")
    for index, name in enumerate(names):
        if name not in KERNEL_NAMES:
            raise InputError(f"a kernel, one of {known(KERNEL_NAMES)}", repr(name)[:60])
        variance, lengths = f"variance_{index}", f"lengthscales_{index}"
        linear = name == "linear"
        for array, several in ((variance, linear), (lengths, not linear)):
            size = len(state.arrays[array]) if array in state.arrays and state.arrays[array].ndim else 0
            allowed = {1, _COLUMNS} if several else {0 if linear else 1}
            state.array(array, size if size in allowed else max(allowed), least=0)
        if not linear:
            state.array(lengths, len(state.arrays[lengths]), above=0)
    _mean(state, own_mean)


def _mean(state: State, own_mean: bool) -> None:
    modules = state.texts("modules")
    for module in modules:
        # Importing runs the module, so that the bundle alone must not decide it.
        if module not in state.modules:
            raise InputError(
                "a bundle that imports nothing, or a module that was allowed by name",
                f"a mean function of module {module!r}",
            )
    name = state.value("mean")
    if not isinstance(name, str):
        raise InputError("predictor.values.mean: a text", repr(name)[:60])
    if "roofline" in state.values:
        roofline = state.value("roofline")
        if not isinstance(roofline, dict) or not {"structure", "sharpness"} <= set(roofline):
            raise InputError("predictor.values.roofline: structure and sharpness", repr(roofline)[:60])
        _structure(roofline["structure"])
        _number("roofline.sharpness", roofline["sharpness"], -math.inf, 0)
        state.array("roofline_parameters", _RATES)
    elif own_mean and name == CALIBRATED:
        raise InputError("predictor.values.roofline", "nothing")
    elif own_mean:
        get_mean(name, modules)


def _structure(found: object) -> None:
    hints = get_type_hints(Structure)
    if not isinstance(found, dict) or not set(found) <= set(hints):
        raise InputError(f"structure with {known(hints)}", repr(found)[:60])
    for name, value in found.items():
        hint = hints[name]
        if get_origin(hint) is Literal:
            fits = value in get_args(hint)
        else:
            fits = type(value) is hint and not (hint is int and value < 1)
        if not fits:
            raise InputError(f"a structure's {name}", repr(value)[:60])


def _calibrated(state: State) -> None:
    _structure(state.value("structure"))
    state.number("sharpness", above=0)
    state.numbers("noise", 2, least=0)
    state.number("least_deviation", least=0)
    state.numbers("inflation", 2, least=0)
    sheets = state.value("datasheets")
    if not isinstance(sheets, list) or not all(isinstance(sheet, dict) for sheet in sheets):
        raise InputError("predictor.values.datasheets: a list of objects", repr(sheets)[:60])
    _scaling(state, "inputs")
    for name in ("parameters", "pull", "accelerator_sigma"):
        state.array(name, _RATES)
    state.array("amplitudes", len(AMPLITUDES), least=0)
    state.array("lengthscales", len(INPUT_GROUPS), above=0)
    state.array("rate_covariance", _RATES, _RATES)
    state.array("inputs", "support", "inputs")
    state.array("memory_share", "support", least=0, most=1)
    state.array("jacobian", "support", _RATES)
    for name in ("support_shapes", "support_accelerators", "support_keys"):
        state.array(name, "support", kind="U")
    state.array("tails", "support", least=0)
    state.array("weights", "support")
    state.array("precision", "support", "support")
    for name in ("shapes", "accelerators"):
        state.array(name, name, kind="U")


_CHECKS: dict[str, Callable[[State], None]] = {
    "standard": _standard,
    "linear": _linear,
    "tree_ensemble": _trees,
    "network": _network,
    "network_mean": _network_mean,
    "gaussian_process": _process,
    "calibrated_roofline": _calibrated,
}
"""By kind; xgboost's document is checked by its own reader, `accelperf.models.xgboost_predictor`."""
