"""Tolerances of the tests, each named for what it allows."""

EXACT_ALGEBRA = 1e-10
"""Relative: two exact formulas for one number, in double precision."""

CLOSED_FORM = 1e-8
"""Relative: a closed form against refitting, through a Cholesky factorisation."""

TENSORFLOW = 1e-6
"""Relative: NumPy against TensorFlow, whose distances are rounded otherwise."""

REFIT = 1e-2
"""Relative: two optimisers that stop within their own tolerance of the same optimum."""

FLOAT32 = 1e-5
"""Relative: numbers that a library keeps in single precision."""

PUBLISHED_6_DIGITS = 5e-7
"""Absolute [ms]: a figure stated with six decimals."""

LOCKSTEP = 1e-6
"""Relative: one network trained in two ways whose rounding differs, for tens of steps."""

FINITE_DIFFERENCE = 1e-5
"""Relative or absolute: a derivative against central differences."""

HUNDREDTHS_OF_A_NAT = 0.05
"""Absolute [nats]: losses of hyperparameters between which data cannot tell."""
