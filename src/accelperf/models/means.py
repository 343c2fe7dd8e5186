"""Mean functions of a Gaussian process, looked up by name.

A mean gets the named arrays of `accelperf.analytic.LATENCY_INPUTS` in raw units and returns
latencies [ms] of the same shape. A module of the user's own can add one and be named in an
estimator's ``modules`` setting::

    from accelperf.models.means import register_mean

    @register_mean("compute_only")
    def compute_only(inputs, ops):
        return latency_terms(inputs, "tiled", ops).compute
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

from accelperf.analytic import NUMPY, VARIANTS, Array, ArrayOps, latency_ms
from accelperf.errors import InputError, known

MeanFunction = Callable[[Mapping[str, Array], ArrayOps], Array]

CALIBRATED = "calibrated"
"""Name of the mean that is no function of a layer alone: the roofline fitted to the training rows
(`accelperf.models.roofline_mean`)."""

_MEANS: dict[str, MeanFunction] = {}


def register_mean(name: str) -> Callable[[MeanFunction], MeanFunction]:
    """Return a decorator that adds a mean function under `name`.

    Raises
    ------
    InputError
        If another function has that name already.
    """

    def register(function: MeanFunction) -> MeanFunction:
        present = _MEANS.get(name)
        same = present is not None and (present.__module__, present.__qualname__) == (
            function.__module__,
            function.__qualname__,
        )
        if name == CALIBRATED:
            raise InputError("a mean's name that is free", f"{name!r}, the fitted roofline")
        if present is not None and not same:
            raise InputError("a mean's name that is free", f"{name!r}, taken by {present.__module__}")
        _MEANS[name] = function
        return function

    return register


def import_means(module: str) -> None:
    """Import a module of the user's own, which may register means.

    Raises
    ------
    InputError
        If it cannot be imported, whatever goes wrong in it.
    """
    try:
        importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError("a Python module that can be imported", f"{module!r} ({reason})") from error


def get_mean(name: str, modules: Sequence[str] = ()) -> MeanFunction:
    """Return the mean function of that name.

    Parameters
    ----------
    name : str
        Its name.
    modules : sequence of str
        Python modules to import first; they may register means of their own.

    Raises
    ------
    InputError
        For a module that cannot be imported, or an unknown name (the known ones are listed).
    """
    for module in modules:
        import_means(module)
    if name not in _MEANS:
        raise InputError(f"a mean, one of {known([*_MEANS, CALIBRATED])}", repr(name))
    return _MEANS[name]


@register_mean("zero")
def zero(inputs: Mapping[str, Array], ops: ArrayOps = NUMPY) -> Array:
    """Return zero [ms] for every row: a Gaussian process that learns everything from data."""
    return 0.0 * inputs["kernel_height"]


def _analytic(variant: str) -> MeanFunction:
    def mean(inputs: Mapping[str, Array], ops: ArrayOps = NUMPY) -> Array:
        return latency_ms(inputs, variant, ops)

    mean.__qualname__ = f"analytic_{variant}"
    return mean


for _variant in VARIANTS:
    register_mean(_variant)(_analytic(_variant))
