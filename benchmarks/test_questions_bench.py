"""Each question by the size of a partition, within 1,000 MB of data; the same on Spark beside it.

Each is a process, started to ended, as ``questions_by_size.py`` runs it; CPU time and peak memory
are noted beside the clock. The log is in the page cache. On Spark, where the start of a session is
most of a small log's time, only sizes up to 1 GB; both engines must give the same answer.
"""

import statistics
import time

import pytest

import golden_data
from questions_by_size import LOCAL, QUESTIONS, ask

MEGABYTES = {"smoke": [1], "short": [100, 500], "full": [1000, 5000, 20_000]}
SPARK_MEGABYTES = 1000
MANY_MEGABYTES = 1000  # from here on a question takes a quarter of a minute, and one round does
PEERS = {"coterie": "local", "coterie, on Spark": "spark"}


def pytest_generate_tests(metafunc):
    sizes = metafunc.config.coterie_sizes
    on_spark = {*QUESTIONS[:1]} if sizes == "smoke" else {*QUESTIONS} - {*LOCAL}
    asked = [
        (megabytes, question, peer)
        for megabytes in MEGABYTES[sizes]
        for question in QUESTIONS
        for peer, engine in PEERS.items()
        if engine == "local" or (question in on_spark and megabytes <= SPARK_MEGABYTES)
    ]
    metafunc.parametrize(("megabytes", "question", "peer"), asked)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Give the folder of the local engine's answers, which Spark's have to equal."""
    return tmp_path_factory.mktemp("answers")


@pytest.mark.benchmark(group="questions", timer=time.perf_counter)  # each is another process
def test_question(benchmark, note, sizes, steady_of, answers, tmp_path, megabytes, question, peer):
    if sizes == "smoke":
        log = golden_data.log("default50")
    else:
        log = steady_of(megabytes * 1_000_000, alone=True)
    local, costs = answers / f"{question}-{megabytes}", []
    out = local if peer == "coterie" else tmp_path / "answer"
    once = sizes == "smoke" or megabytes >= MANY_MEGABYTES or peer != "coterie"

    def work():
        costs.append(ask(question, log, out, PEERS[peer]))

    benchmark.pedantic(work, rounds=1 if once else 3)
    if peer != "coterie":
        if not local.exists():
            ask(question, log, local)
        assert sorted(out.read_bytes().splitlines()) == sorted(local.read_bytes().splitlines())
    benchmark.extra_info.update(
        cpu_s=statistics.median(cost.cpu_s for cost in costs),
        peak_mb=max(cost.peak_mb for cost in costs),
        lines=costs[-1].lines,
    )
    note(f"question {question}", peer, megabytes, package="coterie", unit="MB")
