"""The coordinator on Kafka's own heavy traces, parsed before: events a second.

``many-heartbeats`` is half a million heartbeats of ten thousand members, ``big-group`` a group
of two thousand members that rebalances. The answers are those of Kafka's own coordinator.
"""

import gzip
import json

import pytest

from coterie import GroupCoordinator, load_trace
from golden_data import SHARED

HEAVY = SHARED / "golden" / "traces" / "heavy"


def lines(name, kind):
    path = HEAVY / f"{name}.{kind}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("name", ["many-heartbeats", "big-group"])
@pytest.mark.benchmark(group="coordinator on the heavy traces")
def test_heavy_traces(benchmark, note, sizes, name):
    source = lines(name, "trace")
    trace = load_trace(source)
    made = []

    def setup():
        made[:] = [GroupCoordinator()]

    rounds = 1 if sizes == "smoke" else 9
    played = benchmark.pedantic(lambda: made[0].play(trace), setup=setup, rounds=rounds)
    expected = [json.loads(line) for line in lines(name, "expected")]
    assert [json.loads(json.dumps(line)) for line in played.lines()] == expected
    note(f"coordinator, {name}", "coterie", len(source) - 1, unit="event")
