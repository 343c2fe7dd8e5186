"""How rows are left out: the schemes of cross-validation.

``loo``
    One row at a time. The paper's scheme; a row whose twin (same shape) stays in training is
    easy to predict.
``leave_one_shape_out``
    All rows of one shape, whatever the accelerator and network.
``leave_one_network_out``
    All rows of one network. Rows of other networks that share a shape with it stay out of
    training too, unless `keep_twins`.
``leave_one_accelerator_out``
    All rows of one accelerator: what a configuration never measured would get.
"""

from __future__ import annotations

import numpy as np

from accelperf.errors import InputError, known
from accelperf.features import FeatureMatrix
from accelperf.models.base import Fold

SCHEMES: tuple[str, ...] = (
    "loo",
    "leave_one_shape_out",
    "leave_one_network_out",
    "leave_one_accelerator_out",
)


def make_folds(features: FeatureMatrix, scheme: str, *, keep_twins: bool = False) -> list[Fold]:
    """Return the folds of a scheme; every row is tested in exactly one of them.

    Parameters
    ----------
    features : FeatureMatrix
        The rows.
    scheme : str
        One of `SCHEMES`.
    keep_twins : bool
        For ``leave_one_network_out``: train on rows that share a shape with the left-out network.

    Returns
    -------
    list of Fold
        Sorted by what they leave out; ``loo`` in row order.

    Raises
    ------
    InputError
        For an unknown scheme (the known ones are listed), `keep_twins` where it has no meaning, or
        data with nothing to train on once a group is left out.
    """
    if scheme not in SCHEMES:
        raise InputError(f"a scheme, one of {known(SCHEMES)}", repr(scheme))
    if keep_twins and scheme != "leave_one_network_out":
        raise InputError("keep_twins with leave_one_network_out only", f"scheme {scheme}")
    rows = np.arange(len(features))
    groups = {
        "loo": rows.astype(str),
        "leave_one_shape_out": features.shapes,
        "leave_one_network_out": features.table["network"].to_numpy(dtype=str),
        "leave_one_accelerator_out": features.table["accelerator"].to_numpy(dtype=str),
    }[scheme]
    names = rows.astype(str) if scheme == "loo" else np.unique(groups)
    folds = []
    for name in names:
        test = groups == name
        left_out = test.copy()
        if scheme == "leave_one_network_out" and not keep_twins:
            left_out |= np.isin(features.shapes, features.shapes[test])
        if left_out.all():
            raise InputError(
                f"rows to train on once {name!r} is left out ({scheme})", f"none of {len(features)} rows"
            )
        folds.append(Fold(str(name), rows[~left_out], rows[test]))
    return folds
