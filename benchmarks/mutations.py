"""Ten thousand broken files a reader: rows, clean errors, and what must not happen.

Run ``python benchmarks/mutations.py [COUNT [READER...]]``. Breaks the golden files of the tests as
``tests/logs/test_mutations.py`` does, with another seed; the exit status is 1 if anything but rows
or a clean error came out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from accelperf.logs import READERS

COUNT = 10_000
SEED = 1


def main(count: int, names: list[str]) -> int:
    """Print one line a reader and its failures; return the exit status."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the mutations are the tests' own
    from tests.logs.mutations import fuzz

    print(f"{'reader':14s} {'files':>7s} {'rows':>7s} {'clean errors':>13s} {'failures':>9s}")
    failed = 0
    for reader in READERS:
        if names and reader.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcomes, failures = fuzz(reader, Path(folder), count, seed=SEED)
        row = f"{count:7d} {outcomes['rows']:7d} {outcomes['error']:13d} {len(failures):9d}"
        print(f"{reader.name:14s} {row}", flush=True)
        for failure in failures[:20]:
            print(f"    {failure}")
        failed += len(failures)
    return 1 if failed else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(int(arguments[0]) if arguments else COUNT, arguments[1:]))
