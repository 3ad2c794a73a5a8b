"""Each question of one partition, as multiples of the fold; beside kafka-dump-log and grep.

Each measurement is a process, started to ended, on all cores, its data within 1,000 MB; what counts
is its CPU time, user and system. The fold is one too: a process that scans the log to its last
state and writes nothing. Rounds are interleaved, so that all see the same machine. Of a question:
the table of all groups, in a file; the same as CSV; the table of one group. ``report`` is a page.

``kafka-dump-log --deep-iteration --offsets-decoder | grep GROUP`` is what people have for a group:
its records by topic have to be those of ``growth``, their last offsets those of ``expire``. It is
measured once.

Two threads together use 1.3 to 1.5 times the CPU time of one. ``expire``, ``metrics``, ``undo`` and
``lag`` make and write their 100,000 rows on one thread, in 0.6 to 1.1 s of the clock.
"""

import csv
import json
import shlex
import sys
from collections import Counter
from statistics import median

import pytest

import kafka_peer
from questions_by_size import LOCAL, QUESTIONS, ask, cost_of
from support import golden_data

SIZES = {"smoke": [1], "short": [200], "full": [2000]}  # MB
ROUNDS = {"smoke": 1, "short": 3, "full": 3}
GROUPS = {"smoke": "grp-mix-range", "short": "group-000777", "full": "group-000777"}
FOLD = """
import sys
from coterie.state.replay_engine import Silent
from coterie.state.local_replay import scan_state
from coterie.state.partial import ScanOptions
scan_state((sys.argv[1],), ScanOptions(), Silent())
"""
ALL, ONE, CSV, DUMP = "coterie", "coterie, one group", "coterie, CSV", "kafka-dump-log | grep"
ASKED = [
    (question, peer)
    for question in QUESTIONS
    for peer in ([ALL, ONE] if question in LOCAL else [ALL, ONE, CSV])
]


@pytest.fixture(scope="module")
def measured(request, steady_of):
    """Give what measures all at one size in megabytes: {(question, peer): costs}, log, folder."""
    sizes, found = request.config.coterie_sizes, {}
    home = request.getfixturevalue("tmp_path_factory").mktemp("answers")

    def measure(megabytes):
        if found:
            return found
        log = golden_data.log("basic") if sizes == "smoke" else steady_of(megabytes * 1_000_000)
        found.update(log=log, home=home, group=GROUPS[sizes])
        for _ in range(ROUNDS[sizes]):
            fold = cost_of([sys.executable, "-c", FOLD, str(log)])
            found.setdefault(("fold", ALL), []).append(fold)
            for question, peer in ASKED:
                form = "csv" if peer == CSV else None if question in LOCAL else "table"
                group = GROUPS[sizes] if peer == ONE else None
                cost = ask(question, log, home / "answer", form=form, group=group)
                found.setdefault((question, peer), []).append(cost)
        return found

    return measure


def noted(benchmark, note, question, peer, costs, size, fold_s):
    """Hand CPU seconds of processes that have ended to the benchmark, and note the rest."""
    if benchmark.enabled:
        benchmark._timer = kafka_peer.Replayed([cost.cpu_s for cost in costs])
    benchmark.pedantic(lambda: None, rounds=len(costs), iterations=1)
    cpu_s, wall_s = (median(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s"))
    peak_mb = max(cost.peak_mb for cost in costs)
    benchmark.extra_info.update(
        cpu_s=cpu_s, wall_s=wall_s, peak_mb=peak_mb, lines=costs[-1].lines, folds=cpu_s / fold_s
    )
    note(f"question {question}", peer, size, package="coterie", unit="MB")


@pytest.mark.parametrize(("question", "peer"), [("fold", ALL), *ASKED])
@pytest.mark.benchmark(group="questions")
def test_question(benchmark, note, measured, size, question, peer):
    found = measured(size)
    fold_s = median(cost.cpu_s for cost in found["fold", ALL])
    noted(benchmark, note, question, peer, found[question, peer], size, fold_s)


def test_dump_log(benchmark, note, measured, size):
    if kafka_peer.why_missing():
        pytest.skip(f"{kafka_peer.KAFKA_3_9.name}: {kafka_peer.why_missing()}")
    found = measured(size)
    log, home, group = found["log"], found["home"], found["group"]
    files = ",".join(map(str, sorted(log.glob("**/*.log"))))
    dump = ["java", "-cp", kafka_peer.classpath(), "kafka.tools.DumpLogSegments"]
    dump += ["--deep-iteration", "--offsets-decoder", "--files", files]
    grep = ["grep", "-F", f'"group":"{group}"']
    line = f"{shlex.join(dump)} | {shlex.join(grep)} > {shlex.quote(str(home / 'lines'))}"
    cost = cost_of(["bash", "-o", "pipefail", "-c", line])
    records, last = dumped(home / "lines")
    for question in ("growth", "expire"):
        ask(question, log, home / question, form="csv", group=group)
    assert records == {
        row["topic"]: int(row["records"]) for row in rows(home / "growth") if row["topic"]
    }
    assert last == {
        (row["topic"], int(row["partition"])): int(row["offset"])
        for row in rows(home / "expire")
        if row["topic"]
    }
    fold_s = median(cost.cpu_s for cost in found["fold", ALL])
    noted(benchmark, note, "kafka-dump-log", DUMP, [cost], size, fold_s)
    benchmark.extra_info["version"] = kafka_peer.KAFKA_3_9.name


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def dumped(path):
    """(records of offsets by topic, the last offset of each partition) of what grep let through."""
    records, last = Counter(), {}
    for line in path.read_text().splitlines():
        key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
        data = json.loads(key)["data"]
        if "topic" not in data:
            continue
        place = data["topic"], data["partition"]
        records[place[0]] += 1
        last.pop(place, None)
        if payload.startswith("{"):
            last[place] = json.loads(payload)["data"]["offset"]
    return records, last
