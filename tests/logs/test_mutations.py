"""Broken golden files: rows that validate or a clean error, never anything else."""

from __future__ import annotations

import numpy as np
import pytest

from accelperf.logs import READERS
from tests.logs.mutations import (
    MUTATIONS,
    TooManyStepsError,
    fuzz,
    golden_logs,
    limited_steps,
    mutate,
)
from tests.logs.samples import GOLDEN

CASES = 500

_with_golden_files = [reader for reader in READERS if (GOLDEN / reader.name).is_dir()]


def test_every_reader_has_golden_files():
    assert {reader.name for reader in READERS} == {reader.name for reader in _with_golden_files}


@pytest.mark.parametrize("reader", _with_golden_files, ids=lambda reader: reader.name)
def test_broken_files_end_in_rows_or_in_a_clean_error(reader, tmp_path):
    outcomes, failures = fuzz(reader, tmp_path, CASES)
    assert not failures, f"{len(failures)} of {CASES}:\n" + "\n".join(failures[:20])
    # Were every broken file refused, or every one read, the mutations would test nothing.
    assert min(outcomes.values()) > CASES // 20, outcomes


@pytest.mark.parametrize("reader", _with_golden_files, ids=lambda reader: reader.name)
def test_exactly_one_reader_recognises_each_golden_file(reader, tmp_path):
    logs = golden_logs(reader, tmp_path)
    assert logs
    for log in logs:
        accepting = [each.name for each in READERS if each.recognises(log.path) is None]
        assert accepting == [reader.name], log.path.name


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_seed_gives_one_file_and_the_mutation_changes_most(name):
    data = b"layer,latency_ms\n" + b"".join(b"conv%d,%d.5\n" % (i, i + 1) for i in range(9))
    broken = [MUTATIONS[name](data, np.random.default_rng(seed)) for seed in range(40)]
    assert broken == [MUTATIONS[name](data, np.random.default_rng(seed)) for seed in range(40)]
    assert sum(each != data for each in broken) > 20
    assert mutate(data, np.random.default_rng(1)) == mutate(data, np.random.default_rng(1))
    for empty in (b"", b"\n", b"x"):
        assert isinstance(MUTATIONS[name](empty, np.random.default_rng(2)), bytes)


def test_a_loop_without_end_is_caught_by_counting():
    def endless() -> None:
        while True:
            pass

    code = endless.__code__.replace(co_filename="accelperf/endless.py")
    spinning = type(endless)(code, {})
    with pytest.raises(TooManyStepsError, match="more than 1000 lines"), limited_steps(1000):
        spinning()
