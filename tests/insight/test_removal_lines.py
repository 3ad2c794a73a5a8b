"""Which lines of broker logs explain that offsets were removed, and which of them first."""

import pytest

from coterie.insight.questions.removal_lines import RemovalLines
from coterie.insight.questions.server_log import read_request_log
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.questions.server_log_phrases import (
    EXPIRED,
    GROUP_DELETED,
    OFFSETS_DELETED,
    TOPIC_CREATED,
    TOPIC_DELETED,
    server_lines,
)
from support.request_lines import line as logged

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


# ---- what the logs say


SHARD = "[GroupCoordinator id=1 topic=__consumer_offsets partition=7] "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The following groups were deleted: g, h. A total of 3 offsets were removed. (k.l.M)",
         [{"group": "g", "what": GROUP_DELETED}, {"group": "h", "what": GROUP_DELETED}]),
        ("The following offsets of the group g were deleted: t-0, u-x-12, t-1. A total of 3"
         " offsets were removed.",
         [{"group": "g", "what": OFFSETS_DELETED, "topics": ("t", "u-x")}]),
        ("Removed 4 offsets associated with deleted partitions: t-0,  u-1. (k.l.M)",
         [{"what": TOPIC_DELETED, "topics": ("t", "u")}]),
        (SHARD + "Generated 2 tombstone records in 45 milliseconds while deleting offsets for"
         " partitions [t-0, u-1]. (k.l.M)",
         [{"what": TOPIC_DELETED, "topics": ("t", "u"), "generation": 7, "at_ms": FROM_MS - 45}]),
        ("Created log for partition t-x-3 in /data/t-x-3 with properties {}",
         [{"what": TOPIC_CREATED, "topics": ("t-x",)}]),
        ("Removed 5 expired offsets in 30 milliseconds. (k.l.M)",
         [{"what": EXPIRED, "at_ms": FROM_MS - 30}]),
        (SHARD + "Generated 1 tombstone records while cleaning up group metadata in 8"
         " milliseconds.",
         [{"what": EXPIRED, "generation": 7, "at_ms": FROM_MS - 8}]),
        (SHARD + "[GroupId g] Expiring offsets of partitions (x): t-0, u-1 (k.l.M)",
         [{"group": "g", "what": EXPIRED, "topics": ("t", "u")}]),
        ("[GroupId g] Expired offset for partition=t-0. (k.l.M)",
         [{"group": "g", "what": EXPIRED, "topics": ("t",)}]),
        ("Removed 0 expired offsets in 30 milliseconds.", []),
        ("Generated 0 tombstone records in 45 milliseconds while deleting offsets for partitions"
         " [t-0].", []),
        ("something else", []),
    ],
)  # fmt: skip
def test_each_line_about_removals_is_read_with_all_its_fields(text, expected):
    """A clean-up began as long before its line as it took; a group's line is of any partition."""
    found = list(server_lines(text, FROM_MS))
    common = {"group": "", "at_ms": FROM_MS, "source": SERVER, "until_ms": FROM_MS}
    assert [one._replace(detail=None) for one in found] == [
        BrokerLogLine(**common | fields) for fields in expected
    ]
    detail = text.removeprefix(SHARD).removesuffix(" (k.l.M)")
    assert {one.detail for one in found} <= {detail}


def request_lines(api, version, request, response):
    """Lines about a request of 1.5 s, as (group, what, topics)."""
    one = logged(api, version, request, response, ms=4_000, client="me", totalTimeMs=1_500.0)
    lines = list(read_request_log([one]))
    (ends,) = {line.until_ms for line in lines} or {None}
    assert all(line.at_ms == ends - 1_500 for line in lines)
    assert all((line.client_id, line.client_host) == ("me", "/10.0.0.2") for line in lines)
    assert {line.source for line in lines} <= {REQUESTS}
    return [(line.group, line.what, line.topics) for line in lines]


def test_requests_that_were_answered_without_an_error_removed_or_created_something():
    deleted = [{"groupId": name, "errorCode": code} for name, code in (("g", 0), ("h", 16))]
    assert request_lines("DELETE_GROUPS", 2, {"groupsNames": ["g", "h"]}, {"results": deleted}) == [
        ("g", GROUP_DELETED, ())
    ]
    topics = [
        {"name": name, "partitions": [{"partitionIndex": n, "errorCode": code}
                                      for n, code in enumerate(codes)]}
        for name, codes in (("t", [0, 5]), ("u", [5, 5]), ("v", [0]))
    ]  # fmt: skip
    request = {"groupId": "g", "topics": []}
    for code, found in ((0, [("g", OFFSETS_DELETED, ("t", "v"))]), (69, [])):
        response = {"errorCode": code, "topics": topics}
        assert request_lines("OFFSET_DELETE", 0, request, response) == found
    none = {"errorCode": 0, "topics": topics[1:2]}
    assert request_lines("OFFSET_DELETE", 0, request, none) == []
    results = [{"name": name, "errorCode": code} for name, code in (("t", 0), ("u", 3), (None, 0))]
    assert request_lines("DELETE_TOPICS", 4, {"topicNames": ["t"]}, {"responses": results[:2]}) == [
        ("", TOPIC_DELETED, ("t",))
    ]
    assert request_lines("CREATE_TOPICS", 2, {"topics": []}, {"topics": results[:2]}) == [
        ("", TOPIC_CREATED, ("t",))
    ]
    assert (
        request_lines("DELETE_GROUPS", 2, {"groupsNames": ["g"]}, {}) == []
    )  # the connection was closed
