"""A small log on Spark beside an empty session that counts a range: whole processes, in turn.

``small_on_spark.py`` runs them, in a process that may wait for a JVM whose parent has ended. What
it says of each round becomes the rounds of the benchmark, with the CPU time beside the clock.
"""

import json
import statistics
import subprocess
import sys

import pytest

import small_on_spark
from kafka_peer import Replayed

pytest.importorskip("pyspark")

PEERS = {"coterie": "replay", "an empty session that counts": "an empty session that counts"}


@pytest.fixture(scope="module")
def runs(request):
    """Give the rounds of both: seconds by the clock and of CPU."""
    rounds = 1 if request.config.coterie_sizes == "smoke" else 3
    command = [sys.executable, small_on_spark.__file__, "--json", "--rounds", str(rounds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.benchmark(group="a small log on Spark, whole processes")
@pytest.mark.parametrize("peer", PEERS)
def test_small(benchmark, note, runs, peer):
    wall_s, cpu_s = zip(*runs[PEERS[peer]], strict=True)
    if benchmark.enabled:
        benchmark._timer = Replayed(wall_s)
    benchmark.pedantic(lambda: None, rounds=len(wall_s), iterations=1)
    benchmark.extra_info["cpu_s"] = statistics.median(cpu_s)
    note("process of a small log on Spark", peer, 1, package="pyspark", unit="process")
