"""Which lines of broker logs explain that offsets were removed, and which of them first."""

import pytest

from coterie.insight.brokerlogs.lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.brokerlogs.removal_lines import (
    EXPIRED,
    GROUP_DELETED,
    OFFSETS_DELETED,
    TOPIC_CREATED,
    TOPIC_DELETED,
    RemovalLines,
)

FROM_MS, UNTIL_MS = 100_000, 101_000  # the first and the last tombstone


def line(what, at_ms=FROM_MS, source=SERVER, group="", topics=(), **fields):
    return BrokerLogLine(group, what, at_ms, source, topics=topics, **fields)


def about(*lines, group="g", topics=("t", "u"), partition=3):
    return RemovalLines(lines, partition).about(group, topics, FROM_MS, UNTIL_MS)


@pytest.mark.parametrize(
    ("given", "first_ms", "last_ms"),
    [
        ({"what": EXPIRED}, 98_000, 103_000),
        ({"what": GROUP_DELETED, "group": "g", "source": REQUESTS}, 98_000, 103_000),
        ({"what": TOPIC_DELETED, "topics": ("t",)}, 98_000, 103_000),
        # until all brokers know that a topic was deleted
        ({"what": TOPIC_DELETED, "topics": ("t",), "source": REQUESTS}, 70_000, 103_000),
    ],
)
def test_a_line_explains_tombstones_that_are_near_to_it(given, first_ms, last_ms):
    for at_ms in (first_ms, last_ms):
        assert about(line(**given, at_ms=at_ms))
    for at_ms in (first_ms - 1, last_ms + 1):
        assert not about(line(**given, at_ms=at_ms))


def test_a_clean_up_lasts_from_its_beginning_to_its_end():
    assert about(line(EXPIRED, 10, until_ms=98_000))
    assert not about(line(EXPIRED, 10, until_ms=97_999))
    assert not about(line(EXPIRED, 103_001, until_ms=200_000))


@pytest.mark.parametrize(
    ("given", "is_about"),
    [
        ({"what": EXPIRED}, True),
        ({"what": EXPIRED, "generation": 3}, True),
        ({"what": EXPIRED, "generation": 4}, False),  # another partition's
        ({"what": EXPIRED, "group": "h"}, False),
        ({"what": OFFSETS_DELETED, "group": "g", "topics": ("u", "v")}, True),
        ({"what": OFFSETS_DELETED, "group": "g", "topics": ("v",)}, False),
        ({"what": TOPIC_DELETED, "topics": ("t",)}, True),
        ({"what": TOPIC_CREATED, "topics": ("t",)}, False),
        ({"what": "joined", "group": "g"}, False),
    ],
)
def test_a_line_is_about_its_own_group_topics_and_partition(given, is_about):
    assert bool(about(line(**given))) == is_about


def test_a_group_that_had_no_offsets_was_deleted_or_expired():
    lines = [line(what, group="g") for what in (OFFSETS_DELETED, GROUP_DELETED, TOPIC_DELETED)]
    found = about(*lines, line(EXPIRED), topics=())
    assert [each.what for each in found] == [GROUP_DELETED, EXPIRED]


def test_lines_of_all_groups_are_none_of_a_group_without_a_name():
    assert about(line(EXPIRED), group="") == [line(EXPIRED)]  # once


def test_the_most_exact_line_is_first():
    """One that names the group or a topic; then by what it says; the request log; the nearest."""
    ordered = [
        line(GROUP_DELETED, group="g", source=REQUESTS),
        line(GROUP_DELETED, group="g"),
        line(TOPIC_DELETED, FROM_MS + 1, REQUESTS, topics=("t",)),
        line(TOPIC_DELETED, FROM_MS - 2, REQUESTS, topics=("t",)),
        line(EXPIRED, FROM_MS + 3, group="g"),
        line(GROUP_DELETED, source=REQUESTS),
        line(EXPIRED, FROM_MS - 1),
        line(EXPIRED, FROM_MS + 2),
    ]
    assert about(*ordered[::-1]) == ordered


def test_the_creation_of_a_topic_is_the_first_that_the_request_log_has():
    made = [
        line(TOPIC_CREATED, 10, topics=("t",)),
        line(TOPIC_CREATED, 30, REQUESTS, topics=("u", "t")),
        line(TOPIC_CREATED, 20, REQUESTS, topics=("t",)),
        line(TOPIC_CREATED, 15, REQUESTS, topics=("u",)),
        line(TOPIC_DELETED, 16, REQUESTS, topics=("t",)),
    ]
    lines = RemovalLines(made, 3)
    assert lines.creation("t", 0, None) == made[2]
    assert lines.creation("t", 2020, 2020) == made[2]
    assert lines.creation("t", 2021, 2021) == made[1]
    assert lines.creation("t", 2031, None) is None
    late = RemovalLines([line(TOPIC_CREATED, 5000, topics=("t",))], 3)
    assert late.creation("t", 0, 3000)
    assert late.creation("t", 0, 2999) is None
