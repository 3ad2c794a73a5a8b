"""Every commit as a row of Parquet: ``replay --history`` beside a replay without, on one core.

A log of 0.5 GB in one partition, as ``make_steady_log.py`` writes it, in the page cache. Both must
write the same tables, and the last commits of the history must be those tables' offsets.
"""

import pytest

from coterie.log.folders import find_segments
from coterie.state import parallel_scan
from coterie.state.local_replay import replay
from coterie.state.partial import ScanOptions
from coterie.state.replay_engine import ReplayRequest, Silent
from support import golden_data

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FULL_BYTES = 500_000_000  # about 8 million records
PEERS = ["coterie", "without history"]
KEY = ["group_id", "topic", "partition"]


@pytest.fixture(scope="module")
def listing(request, steady_of):
    """Give a log: small where the run only checks, large where it measures."""
    if request.config.coterie_sizes == "smoke":
        return find_segments([golden_data.log("default50")])
    return find_segments([steady_of(FULL_BYTES)])


def replayed(listing, out, history):
    out.mkdir()
    request = ReplayRequest(log=listing, out=out, options=ScanOptions(history=history))
    return replay(request, Silent())


def last_offsets(commits):
    """(commits that are not gone, those of each key's last): the offsets, as a replay has them."""
    at = commits.group_by(KEY).aggregate([("log_offset", "max")])
    last = at.join(commits, [*KEY, "log_offset_max"], [*KEY, "log_offset"], "inner")
    return last.filter(pa.compute.invert(last["tombstone"])).select([*KEY, "offset"])


@pytest.mark.benchmark(group="replay to Parquet, one core")
@pytest.mark.parametrize("peer", PEERS)
def test_history(benchmark, note, sizes, listing, tmp_path, monkeypatch, peer):
    monkeypatch.setattr(parallel_scan, "cores", lambda: 1)
    outs = []

    def run():
        outs.append(tmp_path / str(len(outs)))
        return replayed(listing, outs[-1], peer == "coterie")

    rounds = 1 if sizes == "smoke" else 5
    summary = benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    offsets = pq.read_table(outs[-1] / "offsets.parquet")
    order = [(name, "ascending") for name in KEY]
    if peer == "coterie":
        replayed(listing, tmp_path / "plain", False)
        assert offsets.equals(pq.read_table(tmp_path / "plain" / "offsets.parquet"))
        columns = [*KEY, "log_offset", "offset", "tombstone"]
        commits = pq.read_table(outs[-1] / "commits.parquet", columns=columns)
        found = last_offsets(commits).sort_by(order)
        assert found.equals(offsets.select([*KEY, "offset"]).sort_by(order))
        benchmark.extra_info["commits"] = len(commits)
    note("replay to Parquet", peer, summary.records, package="coterie", unit="record")
