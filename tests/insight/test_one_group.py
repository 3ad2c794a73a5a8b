"""Of one group, each question says what it says of the group in the whole log."""

import random

import pytest

from coterie.insight import answering
from coterie.insight.question_engine import QuestionRequest
from coterie.insight.questions import group_names
from coterie.state.replay_engine import Silent
from support import grown_topic
from support.golden_data import incident, incidents
from support.insight.every_question import all_questions, ends_at
from support.insight.lives import OF_4X, commit, life, member, transaction_end, written

TRANSACTIONS = [f"transactions-{seed}" for seed in (12, 13, 14)]
QUICK = ("open-transactions-4", "two-applications")
LOGS = [
    *TRANSACTIONS,
    "two-partitions",
    *(
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in incidents()
    ),
]


def transactions(folder, seed):
    """Four groups of 4.x that lose offsets while three producers' transactions are open."""
    draw, at_ms, appends = random.Random(seed), 1_000, []
    for step in range(draw.randint(20, 60)):
        at_ms += draw.choice([0, 5, 300, 2_000, 70_000])
        group, topic = draw.choice([b"a", b"b", b"c", b"d"]), draw.choice([b"t", b"u"])
        partitions = draw.sample(range(3), draw.randint(1, 3))
        offsets = {partition: draw.randint(0, 400) for partition in partitions}
        inside = {"producer_id": draw.randint(5, 7), "transactional": True}
        topics = draw.choice([["t"], ["t", "u"]])
        members = [member(f"m{n}", topics=topics) for n in range(draw.randint(0, 2))]
        appends.append(
            draw.choice(
                [
                    commit(at_ms, offsets, group, topic),
                    {"records": commit(at_ms, offsets, group, topic), **inside},
                    commit(at_ms, dict.fromkeys(offsets), group, topic),
                    transaction_end(at_ms, commit=draw.random() < 0.6) | inside,
                    life(at_ms, step, *members, group=group, state_ms=at_ms),
                    life(at_ms, None, group=group),
                ]
            )
        )
    return written(folder, *appends, OF_4X)


def two_partitions(folder):
    """A group in two partitions of the offsets topic, and another one in the newer of them."""
    partitions = grown_topic.story(older_only=True)
    other = grown_topic.committed(grown_topic.GROWN_MS, 5, group="other")
    partitions[grown_topic.NEWER] += grown_topic.batches(other)
    return grown_topic.write(folder, partitions, ())


def log_of(name, folder):
    if name in TRANSACTIONS:
        return transactions(folder, int(name.rpartition("-")[2]))
    if name == "two-partitions":
        return two_partitions(folder)
    logs = (incident(name) / part for part in ("log", "whole"))
    return next((log for log in logs if log.exists()), incident(name))


def answers_of(log, name, parameters, group=None):
    groups = None if group is None else frozenset({group})
    request = QuestionRequest(name, parameters, (str(log),), groups)
    return list(answering.answer(request, Silent()))


@pytest.mark.parametrize("name", LOGS)
def test_the_rows_of_one_group_are_those_of_the_whole_log(name, tmp_path):
    log = log_of(name, tmp_path / "log")
    parts = answers_of(log, group_names.NAME, group_names.Parameters())
    groups = sorted(frozenset().union(*(part.present_groups for part in parts)))
    end_ms = max(part.newest_ms for part in parts)
    ends = ends_at([end_ms - 600_000, end_ms - 60_000, end_ms])
    for question, parameters in all_questions(end_ms - 30_000, end_ms, ends):
        rows = [row for part in answers_of(log, question.NAME, parameters) for row in part.rows]
        for group in groups:
            alone = answers_of(log, question.NAME, parameters, group)
            assert [row for part in alone for row in part.rows if row["group_id"] == group] == [
                row for row in rows if row["group_id"] == group
            ], (question.NAME, group)
