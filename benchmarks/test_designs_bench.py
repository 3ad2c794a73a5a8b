"""Consumers that join one by one under each design: CPU time and peak memory.

    pytest benchmarks/test_designs_bench.py --coterie-sizes full
    python benchmarks/test_designs_bench.py DESIGN CONSUMERS timeline    # with the timeline

Each run is a process of its own. As many partitions as consumers, 20 s of virtual time between two
joins, so that each is over when the next begins: the worst that joining can cost.
"""

import json
import resource
import subprocess
import sys
import time

import pytest

SIZES = {"smoke": [5], "short": [100], "full": [100, 300, 1000]}
MOST_CPU_S = {"zookeeper-0.8": 600, "coordinator-0.9": 120, "today": 120}  # for 1,000
GAP_MS = 20_000


def scenario(size):
    joins = [
        {"op": "start", "consumer": f"c{i:04}", "subscription": {"t": 1}, "at": 2000 + GAP_MS * i}
        for i in range(size)
    ]
    topic = {"op": "create_topic", "topic": "t", "replicas": [[0]] * size, "at": 1000}
    settle = {"op": "settle", "point": 1, "at": 2000 + GAP_MS * size}
    return {"config": {"brokers": [0]}, "events": [topic, *joins, settle]}


def measure(design, size, timeline=""):
    """Run it; print what it took and cost, and who owns what or how long its timeline is."""
    from coterie.designs import read_scenario, run

    checked = read_scenario(scenario(size))
    begin = time.process_time()
    ran = run(checked, design, timeline=bool(timeline))
    cpu_s = time.process_time() - begin
    consumers = ran.points[0]["consumers"]
    owned = {name: sorted(one["next_offsets"]) for name, one in consumers.items()}
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = {"timeline": len(ran.timeline)} if timeline else {"owned": owned}
    found = {"cpu_s": cpu_s, "peak_mib": peak_mib, "costs": ran.costs, **size}
    print(json.dumps(found))


@pytest.mark.parametrize("design", [*MOST_CPU_S])
@pytest.mark.benchmark(group="joins one by one, by design")
def test_joins(benchmark, note, design, size):
    """One partition each at the end: equal under all three."""

    def run_alone():
        command = [sys.executable, __file__, design, str(size)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(result.stdout)

    found = benchmark.pedantic(run_alone, rounds=1)
    assert found["owned"] == {f"c{i:04}": [f"t/{i}"] for i in range(size)}
    each, all_of_them = size, size * (size + 1) // 2
    rebalances = all_of_them if design == "zookeeper-0.8" else each
    assert (found["costs"]["rebalances"], found["costs"]["took_part"]) == (rebalances, all_of_them)
    assert found["cpu_s"] < MOST_CPU_S[design]
    note("consumers that join one by one", design, size, package="coterie", unit="consumer")
    benchmark.extra_info.update(cpu_s=found["cpu_s"], peak_mib=found["peak_mib"])


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
