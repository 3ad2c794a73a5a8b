"""The local engine by cores: a log of 1 GB, in segments of 100 MB, folded on 1 and more threads.

In one partition, and in those of the wide log; from the page cache. Every number of threads must
find the same keys, offsets and records.
"""

from contextlib import closing

import pytest

from coterie import PartialState, ScanOptions
from coterie._core.fold.fold import offset_columns
from coterie.log.folders import find_segments
from coterie.state.parallel_scan import cores, fold_log
from support import golden_data

FULL_BYTES = 1_000_000_000  # about 12.7 million records
THREADS = sorted({1, 2, cores()})


@pytest.fixture(scope="module", params=["one partition", "all partitions"])
def big(request, wide_of):
    """Give what is measured and its listing: small where the run only checks."""
    if request.config.coterie_sizes == "smoke":
        return request.param, find_segments([golden_data.log("default50")])
    most = 1 if request.param == "one partition" else None
    return request.param, find_segments([wide_of(FULL_BYTES, most, alone=True)])


def fold(listing, threads):
    state = PartialState(ScanOptions())
    with closing(fold_log(state, listing, threads)) as steps:
        for _ in steps:
            pass
    return state


def answer(state):
    folds = state.partitions.values()
    columns = [offset_columns(one) for one in folds]
    return (
        sum(piece.records for one in folds for piece in one.segments),
        [(one["keys"].tobytes(), one["offset"].tolist()) for one in columns],
        [list(one.groups) for one in folds],
    )


@pytest.mark.benchmark(group="the local engine by cores")
@pytest.mark.parametrize("threads", THREADS)
def test_fold_by_cores(benchmark, note, big, threads):
    what, listing = big
    state = benchmark.pedantic(fold, (listing, threads), rounds=15, warmup_rounds=1)
    found = answer(state)
    assert found == answer(fold(listing, 1))
    peer = "coterie" if threads == 1 else f"coterie, {threads} threads"
    note(f"fold by cores, {what}", peer, found[0], package="coterie", unit="record")
