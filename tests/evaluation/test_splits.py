from collections.abc import Callable

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.splits import SCHEMES, make_folds
from accelperf.features import FeatureMatrix

Maker = Callable[..., FeatureMatrix]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_row_is_tested_once_and_never_trained_on_meanwhile(features_of: Maker, scheme: str) -> None:
    features = features_of(60)
    folds = make_folds(features, scheme)
    assert np.array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(60))
    for fold in folds:
        assert len(fold.train) > 0
        assert not set(fold.train) & set(fold.test)


def test_groups_do_not_leak(features_of: Maker) -> None:
    features = features_of(60)
    table = features.table
    for fold in make_folds(features, "leave_one_shape_out"):
        assert not set(features.shapes[fold.train]) & set(features.shapes[fold.test])
    for fold in make_folds(features, "leave_one_accelerator_out"):
        assert set(table["accelerator"].iloc[fold.test]) == {fold.name}
        assert fold.name not in set(table["accelerator"].iloc[fold.train])
    for fold in make_folds(features, "leave_one_network_out"):
        assert set(table["network"].iloc[fold.test]) == {fold.name}
        assert not set(features.shapes[fold.train]) & set(features.shapes[fold.test])
    kept = make_folds(features, "leave_one_network_out", keep_twins=True)
    assert any(set(features.shapes[fold.train]) & set(features.shapes[fold.test]) for fold in kept)
    assert sum(len(fold.train) for fold in kept) == 2 * 60


def test_bad_requests(features_of: Maker) -> None:
    features = features_of(10)
    with pytest.raises(InputError, match=r"one of leave_one_accelerator_out, .*, loo, got 'kfold'"):
        make_folds(features, "kfold")
    with pytest.raises(InputError, match="keep_twins with leave_one_network_out only"):
        make_folds(features, "loo", keep_twins=True)
    with pytest.raises(InputError, match="train on once 'fast' is left out"):
        make_folds(features.take(np.arange(0, 10, 2)), "leave_one_accelerator_out")
