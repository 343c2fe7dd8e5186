"""Small fully connected networks: their shape, their starting weights, and their value with NumPy.

A shape is written as the widths of the layers after the input, such as ``10-10-1``: two hidden
layers of ten and one output. Hidden layers have an activation, the output is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError

Floats = NDArray[np.float64]


def _relu(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


def _tanh(values: Floats) -> Floats:
    return np.asarray(np.tanh(values))


def _sigmoid(values: Floats) -> Floats:
    # The same function as 1 / (1 + exp(-x)), and no overflow on either side.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {"relu": _relu, "tanh": _tanh, "sigmoid": _sigmoid}

_SLOPES: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda values: (values > 0).astype(np.float64),
    "tanh": lambda values: 1.0 - values**2,
    "sigmoid": lambda values: values * (1.0 - values),
}
"""Slope of each activation, from its value."""


def parse_layers(text: str) -> tuple[int, ...]:
    """Read the shape of a network.

    Parameters
    ----------
    text : str
        Widths joined by hyphens, ending in the single output: ``10-10-1``.

    Raises
    ------
    InputError
        If it is anything else.

    Examples
    --------
    >>> parse_layers("15-64-1")
    (15, 64, 1)
    """
    if not re.fullmatch(r"([1-9][0-9]*-)*1", text):
        raise InputError("widths of layers that end in one output, such as '10-10-1'", repr(text))
    return tuple(int(width) for width in text.split("-"))


def layer_shapes(inputs: int, layers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return inputs and outputs of each layer."""
    return list(zip((inputs, *layers[:-1]), layers, strict=True))


def initial_parameters(inputs: int, layers: tuple[int, ...], generator: np.random.Generator) -> Floats:
    r"""Return random weights and zero biases as one vector: layer by layer, weights before biases.

    Weights are uniform in :math:`\pm\sqrt{6 / (n_\mathrm{in} + n_\mathrm{out})}` (Glorot & Bengio,
    *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010,
    Eq. 16).
    """
    parts = []
    for before, width in layer_shapes(inputs, layers):
        limit = np.sqrt(6.0 / (before + width))
        parts += [generator.uniform(-limit, limit, before * width), np.zeros(width)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Perceptron:
    """A network with its weights.

    Attributes
    ----------
    activation : str
        Of the hidden layers, one of `ACTIVATIONS`.
    weights : tuple of array, shape [inputs, outputs] each
        Weights by layer.
    biases : tuple of array, shape [outputs] each
        Biases by layer.
    """

    activation: str
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    @classmethod
    def from_vector(cls, activation: str, inputs: int, layers: tuple[int, ...], vector: Floats) -> Perceptron:
        """Return the network whose parameters stand in a vector, as `initial_parameters` has them."""
        weights, biases, position = [], [], 0
        for before, width in layer_shapes(inputs, layers):
            end = position + before * width
            weights.append(vector[position:end].reshape(before, width))
            biases.append(vector[end : end + width])
            position = end + width
        return cls(activation, tuple(weights), tuple(biases))

    def __call__(self, inputs: Floats) -> Floats:
        """Return the output [rows] for inputs [rows, inputs]."""
        return self.layer_outputs(inputs)[-1][:, 0]

    def layer_outputs(self, inputs: Floats) -> list[Floats]:
        """Return what each layer hands on, shape [rows, width] each, the inputs first."""
        outputs = [inputs]
        activate = ACTIVATIONS[self.activation]
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True), start=1):
            values = outputs[-1] @ weights + biases
            outputs.append(activate(values) if layer < len(self.weights) else values)
        return outputs

    def gradient(self, outputs: list[Floats], by_output: Floats) -> Floats:
        """Return the gradient of a loss by all parameters, in the order of `initial_parameters`.

        Parameters
        ----------
        outputs : list of array
            What `layer_outputs` returned.
        by_output : array of shape [rows]
            Gradient of the loss by the network's output.
        """
        parts: list[Floats] = []
        signal = by_output[:, None]
        for layer in reversed(range(len(self.weights))):
            parts = [(outputs[layer].T @ signal).ravel(), signal.sum(axis=0), *parts]
            if layer:
                signal = signal @ self.weights[layer].T * _SLOPES[self.activation](outputs[layer])
        return np.concatenate(parts)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return weights and biases under the names that `from_arrays` reads."""
        named: dict[str, NDArray[Any]] = {}
        for index, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            named |= {f"weights_{index}": weights, f"biases_{index}": biases}
        return named

    @classmethod
    def from_arrays(cls, activation: str, layers: int, arrays: Mapping[str, NDArray[Any]]) -> Perceptron:
        """Return the network of that many layers whose `arrays` these are."""
        weights = tuple(arrays[f"weights_{index}"] for index in range(layers))
        return cls(activation, weights, tuple(arrays[f"biases_{index}"] for index in range(layers)))
