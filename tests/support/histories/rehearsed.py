"""Histories for a rehearsal: those of groups of real logs, and the ops of made ones."""

from unittest.mock import patch

from coterie.base.progress_bar import ProgressBar
from coterie.histories.rehearsal.history import read_history
from coterie.histories.rehearsal.play import Play
from coterie.insight import answering
from coterie.insight.question_engine import QuestionRequest
from coterie.insight.questions import generations
from coterie.log.folders import find_segments
from coterie.testing.topic_log import OffsetsLog
from support.golden_data import GOLDEN
from support.log_writer import batch

INCIDENTS = GOLDEN / "incidents"
PLAYED = {"range", "roundrobin", "sticky", "cooperative-sticky", "consumer"}


def histories_of(path, *groups):
    """The history of each group of a log whose consumers are Kafka's."""
    ask, log = generations.Parameters(), find_segments((str(path),))
    request = QuestionRequest(generations.NAME, ask, log, frozenset(groups) or None)
    rows = {}
    for part in answering.answer(request, ProgressBar()):
        for row in part.rows:
            rows.setdefault(row["group_id"], []).append(row)
    for group, of_group in rows.items():
        if {row["protocol"] for row in of_group if row["members"]} & PLAYED:
            yield read_history(group, of_group)


def history_of(incident, group):
    (found,) = histories_of(INCIDENTS / incident / "log", group)
    return found


def played_into(folder, history, **options):
    """Play a history, and write what its coordinator writes as a log; the play's result."""
    rows, write = [], OffsetsLog.write

    def keep(log, row):
        first = write(log, row)
        rows.append((first, history.origin_ms + play.now_ms, row[-1]))
        return first

    with patch.object(OffsetsLog, "write", keep):
        play = Play(history, **options)
        result = play.run()
    partition = folder / "__consumer_offsets-0"
    partition.mkdir()
    data = [batch(first, [(at, *pair) for pair in pairs]) for first, at, pairs in rows if pairs]
    (partition / f"{0:020}.log").write_bytes(b"".join(data))
    return result


def op(kind, consumer, at, *topics, odd=None, **config):
    """An op of a scenario; of a start, settings that have underscores in place of dots."""
    made = {"at": at, "op": kind, "after": 0, "slack_ms": 0, "consumer": consumer}
    if kind != "start":
        return made
    settings = {
        "session.timeout.ms": 10_000,
        "max.poll.interval.ms": 60_000,
        "partition.assignment.strategy": "range",
        "client.id": consumer,
        "member.id": f"{consumer}-{at}",
    } | {name.replace("_", "."): value for name, value in config.items()}
    subscription = dict.fromkeys(topics or ["orders"], 1)
    return {**made, "subscription": subscription, "config": settings, "odd": odd or {}}


def start(consumer, at, *topics, **fields):
    return op("start", consumer, at, *topics, **fields)
