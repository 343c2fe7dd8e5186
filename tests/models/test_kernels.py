import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.models.kernels import KERNEL_NAMES, Kernel, KernelPart, parse_kernel
from accelperf.models.quiet_import import silenced_stderr
from tests.tolerances import EXACT_ALGEBRA, TENSORFLOW


def part(name: str, columns: int, rng: np.random.Generator) -> KernelPart:
    lengthscales = np.array([]) if name == "linear" else rng.uniform(0.5, 3, columns)
    return KernelPart(name, rng.uniform(0.5, 2, 1), lengthscales)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("operation", ["", "+", "*"])
def test_kernels_agree_with_gpflow(name: str, operation: str) -> None:
    with silenced_stderr():
        import gpflow

    rng = np.random.default_rng(1)
    rows, others = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    parts = [part(name, 4, rng)] + ([part("matern12", 4, rng)] if operation else [])
    classes = {
        "linear": lambda p: gpflow.kernels.Linear(variance=p.variance[0]),
        "rbf": lambda p: gpflow.kernels.RBF(p.variance[0], p.lengthscales),
        "matern12": lambda p: gpflow.kernels.Matern12(p.variance[0], p.lengthscales),
        "matern32": lambda p: gpflow.kernels.Matern32(p.variance[0], p.lengthscales),
        "matern52": lambda p: gpflow.kernels.Matern52(p.variance[0], p.lengthscales),
    }
    theirs = [classes[p.name](p) for p in parts]
    kernel = theirs[0]
    if operation == "+":
        kernel = theirs[0] + theirs[1]
    if operation == "*":
        kernel = theirs[0] * theirs[1]
    ours = Kernel(operation, tuple(parts))
    np.testing.assert_allclose(ours(rows, others), kernel(rows, others).numpy(), rtol=TENSORFLOW)
    np.testing.assert_allclose(ours.diagonal(rows), kernel(rows, full_cov=False).numpy(), rtol=TENSORFLOW)


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(KERNEL_NAMES))
def test_covariances_are_symmetric_and_positive(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(8, 3))
    covariance = part(name, 3, rng)(rows, rows)
    np.testing.assert_allclose(covariance, covariance.T, rtol=EXACT_ALGEBRA, atol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_expressions() -> None:
    assert parse_kernel("matern32 + linear").names == ("matern32", "linear")
    assert str(parse_kernel("rbf*matern12")) == "rbf*matern12"
    assert parse_kernel("linear").operation == ""


@pytest.mark.parametrize("text", ["", "matern", "rbf+", "rbf+linear*rbf", "rbf rbf", "RBF"])
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="kernel"):
        parse_kernel(text)
