"""Why offsets were removed, as records rule reasons out: each bound, and each text."""

from types import SimpleNamespace

import pytest

from coterie.insight.offsets.key_removals import KeyRemoval, Place
from coterie.insight.questions.explain_removals import (
    RemovalEvents,
    RemovalLines,
    compare_partitions,
    duration,
)
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from coterie.messages import encode_value
from support.insight.lives import member

T0 = 1_795_000_000_123


def removal(at_ms=0, group="g", topics="t", lasted_ms=0, committed_ms=None, resumed=()):
    """Two offsets of each topic, removed by the records 40 and 41."""
    times = T0 + at_ms, T0 + at_ms + lasted_ms
    after = dict(zip((0, 3), resumed, strict=False))
    rows = []
    for topic in topics:
        for log_offset, partition, offset, ms in zip(
            (40, 41), (0, 3), (70, 80), times, strict=True
        ):
            gone = Place(-1, ms, log_offset, "f", 5)
            if committed_ms is None:
                was = None, None, None, None, -1
            else:
                was = offset, 5, T0 + at_ms + committed_ms, None, T0 + at_ms + committed_ms
            rows.append(KeyRemoval((group, topic, partition), gone, *was, after.get(partition)))
    return rows


def event(what, at_ms, log_offset):
    timestamp = None if at_ms is None else T0 + at_ms
    return {"event": what, "timestamp": timestamp, "log_offset": log_offset, "group_id": "g",
            "causes": [], "cause": ""}  # fmt: skip


def history(*values):
    """A group with these values, at the log offsets 10, 11, 12..."""
    rows = [
        {"log_offset": 10 + at, "timestamp": None, "tombstone": False} for at in range(len(values))
    ]
    records = [SimpleNamespace(value=value) for value in values]
    return SimpleNamespace(generations=rows, records=records, state=lambda at: None)


def state(*members, protocol_type="consumer", since_ms=None):
    """The value of a group; ``since_ms``: when it became empty, after T0."""
    data = {
        "protocolType": protocol_type,
        "generation": 3,
        "protocol": "range" if members else None,
        "leader": None,
        "currentStateTimestamp": -1 if since_ms is None else T0 + since_ms,
        "members": list(members),
    }
    return encode_value(2, {"version": 3, "data": data})


def consumer(*topics, **fields):
    return member("m", topics=list(topics), **fields)


def removed(removals, first=()):
    rows = [row for theirs in removals for row in theirs]
    return SimpleNamespace(
        rows=lambda: iter(rows),
        first_commits=lambda: iter(first),
        groups_with_transactions=set,
        keys_with_expire_times=set,
    )


def told(theirs, *, others=(), lines=(), of=None, events=(), first=()):
    """The rows of the removals of `g`; ``first``: log offsets of first commits of other keys."""
    renamed = [
        [row._replace(key=(f"other-{at}", *row.key[1:])) for row in one]
        for at, one in enumerate(others)
    ]
    view = SimpleNamespace(
        histories={} if of is None else {"g": of},
        newer_by_group={},
        fold=SimpleNamespace(follows_4x=False),
        is_complete_at=lambda at_ms: True,
    )
    keys = [(("g", "other", at), log_offset) for at, log_offset in enumerate(first)]
    keys += [(row.key, 5) for one in theirs for row in one if row.offset is not None]
    mine = removed(theirs, keys)
    all_of_them = removed([*theirs, *renamed])
    found = RemovalEvents(view, mine, all_of_them, RemovalLines(lines, 0))
    return list(found.rows("g", list(events)))


def reason(theirs, **known):
    """What a removal is told to be, and the text behind its offsets."""
    row = told([theirs], **known)[0]
    return row["causes"][0]["what"], row["cause"].partition(" removed: ")[2]


EMPTY = {"of": history(state(consumer("t")), state(since_ms=-90_000)), "first": [12]}


@pytest.mark.parametrize(
    ("committed_ms", "lasted_ms", "what", "text"),
    [
        (-59_000, 999, "offsets_deleted", "deleted by a tool or with their topic, not expired: "
         "60.0 s after their last commit, and the least retention is 1 min"),
        (-59_000, 1_000, "removed", "expired or deleted 60.0 s after their last commit"),
        (0, 0, "offsets_deleted", "deleted by a tool or with their topic, not expired: "
         "0.0 s after their last commit, and the least retention is 1 min"),
        (1, 0, "removed", "expired or deleted an unknown time after their last commit"),
        (None, 0, "removed", "expired or deleted an unknown time after their last commit"),
    ],
)  # fmt: skip
def test_offsets_do_not_expire_within_the_least_retention(committed_ms, lasted_ms, what, text):
    assert reason(removal(committed_ms=committed_ms, lasted_ms=lasted_ms)) == (what, text)


@pytest.mark.parametrize(
    ("since_ms", "first", "text"),
    [
        (-59_999, [12], "deleted by a tool or with their topic, not expired: 60.0 s after the "
         "group became empty, and the least retention is 1 min"),
        (-60_000, [12], "deleted by a tool or with their topic: all offsets of an empty group "
         "expire at once"),
        (-60_000, [], "expired or deleted 60.0 s after the group became empty; an undecided "
         "transaction may keep the group"),
        # The commits' own time counts where the group's is not known: they expire one by one.
        (None, [12], "expired or deleted 8.3 min after their last commit"),
    ],
)  # fmt: skip
def test_the_retention_of_an_empty_group_begins_when_it_became_empty(since_ms, first, text):
    _, found = reason(
        removal(committed_ms=-500_000), of=history(state(since_ms=since_ms)), first=first
    )
    assert found == text


@pytest.mark.parametrize(
    ("as_of", "topics", "is_topic"),
    [
        (state(consumer("t", "x"), consumer("u", memberId="n")), "tu", True),
        (state(consumer("t")), "tu", False),
        (state(consumer("x"), protocol_type="connect"), "t", True),  # keeps all its offsets
    ],
)
def test_topics_that_members_use_lose_offsets_only_when_they_are_deleted(as_of, topics, is_topic):
    what, text = reason(removal(topics=topics, committed_ms=-700_000), of=history(as_of))
    assert what == "topic_deleted"
    assert text == "the topic was deleted: the group's members used it, and nothing else removes it"
    rows = told([removal(topics=topics, committed_ms=-700_000)], of=history(as_of))
    assert [row["topics"] for row in rows] == ([list(topics)] if is_topic else [["t"], ["u"]])
    assert is_topic or "expired or deleted 11.7 min after their last commit" in rows[1]["cause"]
    # A deletion of the group before says nothing of it.
    found = reason(removal(topics=topics, committed_ms=-700_000), of=history(as_of, None))
    assert found == ("removed", "expired or deleted 11.7 min after their last commit")


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([removal(-1_000)], "1 other group"),
        ([removal(-1_001)], None),
        ([removal(1_500)], "1 other group"),  # it lasts for half a second
        ([removal(1_501)], None),
        ([removal(0), removal(3), removal(4, topics="u"), removal(5, topics="tu")],
         "2 other groups"),
    ],
)  # fmt: skip
def test_groups_that_lose_offsets_of_one_topic_at_a_moment_lost_the_topic(others, text):
    theirs = removal(lasted_ms=500, committed_ms=-700_000)
    what, found = reason(theirs, others=others, **EMPTY)
    assert what == ("topic_deleted" if text else "offsets_deleted")
    if text:
        assert found == f"the topic was deleted: {text} lost offsets of it at the same moment"
    expired = reason(removal(lasted_ms=500, committed_ms=-700_000), others=others)
    assert expired[0] == "removed"
    assert ("lost offsets of the same topic at the same moment" in expired[1]) == bool(text)
    assert (text or "") in expired[1]


@pytest.mark.parametrize(
    ("at_ms", "is_with"), [(-1_001, False), (-1_000, True), (1_000, True), (1_001, False)]
)
def test_a_deletion_of_the_group_within_a_moment_came_with_the_offsets(at_ms, is_with):
    deletion = event("deleted", at_ms, 42)
    theirs = removal(committed_ms=-30_000)
    of = history(state(since_ms=-30_000), None)
    of.generations[1] |= {"timestamp": T0 + at_ms, "tombstone": True, "log_offset": 42}
    what, _ = reason(theirs, events=[deletion], of=of)
    assert what == ("group_deleted" if is_with else "offsets_deleted")
    assert ("had no offsets" in deletion["cause"]) != is_with
    if is_with:
        assert deletion["cause"].startswith("the group was removed with 2 offsets: deleted, not")


def test_a_line_about_a_deletion_does_not_change_the_reason_that_its_offsets_gave():
    """The group's line without topics would say that it expired; its offsets were just written."""
    deletion, alone = event("deleted", 0, 42), event("deleted", 500, 60)
    line = BrokerLogLine("", "expired", T0, SERVER, detail="cleaned up")
    of = history(state(since_ms=-30_000), None)
    of.generations[1] |= {"timestamp": T0, "tombstone": True, "log_offset": 42}
    told([removal(committed_ms=-30_000)], lines=[line], events=[deletion, alone], of=of)
    assert deletion["causes"][0]["what"] == "group_deleted"
    assert "with 2 offsets" in deletion["cause"]
    assert alone["cause"] == "the group was removed: it had no offsets left [server log]"


def resumed(*offsets, first=0):
    return tuple(
        Place(offset, T0 + 9_000 + at, 50 + first + at, "f2", 8 + at)
        for at, offset in enumerate(offsets)
    )


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ((69, 79), "t was perhaps created again; first commits since: t-0 69 (before 70), "
                   "t-3 79 (before 80)"),
        ((70, 79), None),
        ((69, 80), None),
        ((), None),
    ],
)  # fmt: skip
def test_lower_offsets_suggest_a_topic_that_was_created_again(offsets, text):
    rows = told([removal(committed_ms=-30_000, resumed=resumed(*offsets))])
    assert [row["cause"] for row in rows[1:]] == ([text] if text else [])
    for row in rows[1:]:
        assert (row["timestamp"], row["log_offset"], row["place"]) == (T0 + 9_000, 50, 50)
        assert (row["file"], row["position"], row["count"]) == ("f2", 8, 2)


def test_a_request_that_created_the_topic_stands_behind_the_last_event_before_it():
    line = BrokerLogLine("", "topic_created", T0 + 5_000, REQUESTS, client_id="admin",
                         client_host="/h", detail="User:x", topics=("t",))  # fmt: skip
    events = [event("generation", -900_000, 10), event("generation", 4_000, 44),
              event("generation", 5_000, 45), event("generation", 5_001, 46),
              event("generation", None, 47)]  # fmt: skip
    of = history(state(consumer("t")))
    (_, row) = told([removal(committed_ms=-700_000)], lines=[line], of=of, events=events)
    assert row["cause"] == "t was created again by admin (h) as User:x [request log]"
    assert (row["timestamp"], row["log_offset"], row["place"]) == (T0 + 5_000, None, 45)
    (_, row) = told([removal(committed_ms=-700_000)], lines=[line], of=of, events=events[:1])
    assert row["place"] == 41


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (119_949, "119.9 s"), (119_999, "120.0 s"), (120_000, "2.0 min"), (7_199_999, "120.0 min"),
        (7_200_000, "2.0 h"), (172_799_999, "48.0 h"), (172_800_000, "2.0 d"), (0, "0.0 s"),
    ],
)  # fmt: skip
def test_a_duration_has_a_unit_of_which_there_are_at_least_two(ms, text):
    assert duration(ms) == text


def removed_row(group, at_ms, what, topics=("t",), source="records"):
    return {"event": "offsets_removed", "group_id": group, "timestamp": T0 + at_ms,
            "until": T0 + at_ms + 50, "topics": list(topics), "count": 2,
            "causes": [{"what": what, "source": source}],
            "cause": "2 offsets of t:0,3 removed: old"}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "is_changed"),
    [
        (removed_row("h", 1_000, "topic_deleted"), True),
        (removed_row("h", 1_001, "topic_deleted"), False),
        (removed_row("h", -1_000, "offsets_deleted"), True),
        (removed_row("h", 0, "removed"), True),  # this one's was certainly deleted
        (removed_row("g", 0, "offsets_deleted"), False),  # one group is not several
        (removed_row("h", 0, "topic_deleted", source="server log"), False),
        (removed_row("h", 0, "topic_deleted", topics=("u",)), False),
        (removed_row("h", 0, "topic_deleted", topics=("t", "u")), False),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_groups_of_other_partitions_tell_that_a_topic_was_deleted(other, is_changed, turn):
    row = removed_row("g", 0, "offsets_deleted")
    compare_partitions([row, other | {"causes": list(other["causes"])}][::turn])
    text = "the topic was deleted: 1 other group lost offsets of it at the same moment"
    assert row["causes"][0]["what"] == ("topic_deleted" if is_changed else "offsets_deleted")
    assert row["cause"] == f"2 offsets of t:0,3 removed: {text if is_changed else 'old'}"


@pytest.mark.parametrize(
    ("at_ms", "group", "is_changed"),
    [(-950, "g", True), (-951, "g", False), (1_050, "g", True), (1_051, "g", False),
     (0, "x", False), (None, "g", False)],
)  # fmt: skip
def test_the_deletion_of_the_moment_has_the_same_reason(at_ms, group, is_changed):
    rows = removed_row("g", 0, "offsets_deleted"), removed_row("h", 3, "topic_deleted")
    deletion = event("deleted", at_ms, 42) | {"group_id": group, "causes": rows[0]["causes"]}
    compare_partitions([deletion, *rows])
    assert (deletion["causes"][0]["what"] == "topic_deleted") == is_changed
    assert deletion["cause"].startswith("the group was removed with 2 offsets") == is_changed
