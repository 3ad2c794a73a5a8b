"""Every commit as a row of Parquet: ``replay --history`` beside a replay without, on one core.

A log of 0.5 GB in one partition, as ``make_steady_log.py`` writes it, in the page cache.
"""

import pytest

import golden_data
import make_steady_log
from coterie.log.folders import find_segments
from coterie.replay import crew
from coterie.replay.engine import ReplayRequest, Silent
from coterie.replay.local import replay
from coterie.state.partial import ScanOptions

pq = pytest.importorskip("pyarrow.parquet")

FULL_BYTES = 500_000_000  # about 8 million records


@pytest.fixture(scope="module")
def listing(request, tmp_path_factory):
    """Give a log: small where the run only checks, large where it measures."""
    if request.config.getoption("benchmark_disable"):
        return find_segments([golden_data.log("default50")])
    home = tmp_path_factory.mktemp("steady")
    make_steady_log.write(home / "__consumer_offsets-0", FULL_BYTES, 2000, 50)
    return find_segments([home])


@pytest.mark.benchmark(group="replay to Parquet, one core")
@pytest.mark.parametrize("history", [True, False], ids=["history", "no history"])
def test_history(benchmark, note, listing, tmp_path, monkeypatch, history):
    monkeypatch.setattr(crew, "cores", lambda: 1)
    made = []

    def run():
        out = tmp_path / str(len(made))
        out.mkdir()
        request = ReplayRequest(log=listing, out=out, options=ScanOptions(history=history))
        made.append((out, replay(request, Silent())))

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    out, summary = made[-1]
    if history:
        commits = pq.ParquetFile(out / "commits.parquet").metadata.num_rows
        assert 0 < commits <= summary.records
    note("replay to Parquet", "history" if history else "none", summary.records, unit="record")
