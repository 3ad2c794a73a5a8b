"""What the findings of one loop are as one finding: each field, and the text of each kind."""

import pytest

from coterie.insight.questions import audit
from coterie.insight.questions.audit_loops import merged
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import commit, life, member, written

T0 = 1_795_000_000_000


def finding(kind, at, loop="loop", **fields):
    """A finding of a group; number ``at`` is its place, time and partition."""
    row = {"kind": kind, "group_id": "g", "topic": "t", "partition": at, "log_offset": 100 + at}
    row |= {"timestamp": T0 + 1000 * at, "file": "f", "position": 7, "detail": f"detail {at}"}
    return row | {"loop": loop, "previous_log_offset": 50 + at} | fields


def moved(kind, at, old, new, **fields):
    bounds = {"lowest_offset": min(old, new), "highest_offset": max(old, new)}
    fields = {
        "loop": "loop",
        "previous_offset": old,
        "offset": new,
        "moved": abs(new - old),
    } | fields
    return finding(kind, at, **bounds, **fields)


def text_of(*rows):
    (row,) = merged(dict(one) for one in rows)
    return row["detail"]


def test_each_field_of_a_loop_is_that_of_all_its_findings():
    rows = [
        finding("no_progress", 2, first=T0 + 5, last=T0 + 2500, count=5, fewest=2, most=5,
                lowest_offset=40, highest_offset=60, members=["a", "b"], clients=[{"c": 1}]),
        finding("no_progress", 1, first=None, last=None, count=3, fewest=3, most=3,
                lowest_offset=50, highest_offset=70, members=["c", "a"],
                clients=[{"c": 2}, {"c": 1}]),
        finding("no_progress", 2, first=T0 + 9, last=T0 + 2400, count=4, fewest=4, most=4,
                lowest_offset=45, highest_offset=55, members=[], log_offset=90),
    ]  # fmt: skip
    (row,) = merged(dict(one) for one in rows)
    assert row["count"] == 12
    assert (row["first"], row["last"]) == (T0 + 5, T0 + 2500)
    assert (row["lowest_offset"], row["highest_offset"]) == (40, 70)
    assert (row["log_offset"], row["timestamp"]) == (102, T0 + 2000)  # the last record
    assert row["previous_log_offset"] == 51  # the first
    assert row["clients"] == [{"c": 2}, {"c": 1}]
    assert row["members"] == ["c", "a", "b"]
    assert (row["topic"], row["partition"]) == ("t", None)
    assert row["partitions"] == [
        {"topic": "t", "partition": 1, "count": 3, "lowest_offset": 50, "highest_offset": 70},
        {"topic": "t", "partition": 2, "count": 9, "lowest_offset": 40, "highest_offset": 60},
    ]
    assert row["detail"] == "2 partitions of t: 2 to 5 commits of one offset in a row in 2.5 s"


def test_findings_without_a_time_or_a_count_are_one_each():
    rows = [moved("skip", at, 5, 9, timestamp=time, why="so") for at, time in enumerate((None, T0))]
    (row,) = merged(dict(one) for one in rows)
    assert (row["first"], row["last"], row["count"]) == (T0, T0, 2)
    assert [place["count"] for place in row["partitions"]] == [1, 1]
    (alone,) = merged([dict(rows[0])])
    assert (alone["first"], alone["last"], alone["partition"]) == (None, None, 0)


def test_partitions_of_two_topics_have_no_topic_in_common():
    rows = [moved("skip", at, 5, 9, topic=topic, why="so") for at, topic in enumerate("tu")]
    (row,) = merged(dict(one) for one in rows)
    assert (row["topic"], row["partition"]) == (None, None)


@pytest.mark.parametrize(("ids", "shared"), [(("i", "i"), "i"), (("i", "j"), None)])
def test_a_static_id_is_named_if_it_is_the_only_one(ids, shared):
    rows = [finding("static_fight", at, group_instance_id=one) for at, one in enumerate(ids)]
    (row,) = merged(rows)
    assert row["group_instance_id"] == shared


def test_the_last_twenty_members_are_named():
    names = [f"m{number}" for number in range(21)]
    (row,) = merged([finding("generation_gap", 0, members=names[:10]),
                     finding("generation_gap", 1, members=names[10:])])  # fmt: skip
    assert row["members"] == names[1:]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (2, "detail 0; detail 1"),
        (3, "detail 0; detail 1; detail 2"),
        (4, "detail 0; detail 1; detail 2; 1 more"),
        (6, "detail 0; detail 1; detail 2; 3 more"),
    ],
)
def test_three_details_are_shown_and_how_many_more_there_are(count, text):
    assert text_of(*(finding("generation_gap", at) for at in range(count))) == text


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([(7, 7), (7, 7)], "2 partitions of t: 7 commits of one offset in a row"),
        ([(7, 9), (3, 8)], "2 partitions of t: 3 to 9 commits of one offset in a row"),
    ],
)
def test_runs_without_progress_say_how_many_commits_were_in_a_row(runs, text):
    rows = [
        finding("no_progress", at, fewest=fewest, most=most, first=None)
        for at, (fewest, most) in enumerate(runs)
    ]
    assert text_of(*rows) == text


def test_large_metadata_is_shown_by_the_first_of_the_largest():
    rows = [
        finding("large_metadata", at, size=size, count=2)
        for at, size in enumerate((900, 1100, 1100, 1000))
    ]
    (row,) = merged(rows)
    assert row["log_offset"] == 101
    assert row["detail"] == "1100 bytes of metadata in the largest of 8, 4 partitions of t"


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([("t", 4)], "t-4"),
        ([("t", 0), ("u", 1), ("u", 2), ("v", 3)], "t-0, 2 partitions of u, v-3"),
        ([("t", 0), ("u", 1), ("v", 3), ("w", 4), ("w", 5)],
         "t-0, u-1, v-3, 2 partitions of 1 more topics"),
        ([("t", 0), ("u", 1), ("v", 3), ("w", 4), ("x", 5)],
         "t-0, u-1, v-3, 2 partitions of 2 more topics"),
    ],
)  # fmt: skip
def test_three_topics_are_named_and_the_partitions_of_others_counted(places, text):
    rows = [
        finding("no_progress", at, fewest=2, most=2, first=None, topic=topic, partition=partition)
        for at, (topic, partition) in enumerate([*places, places[0]])
    ]
    assert text_of(*rows) == f"{text}: 2 commits of one offset in a row"


def test_rewinds_of_one_request_are_shown_with_the_offsets_of_the_first_partitions():
    rows = [moved("rewind", at, 90 - at, 80) for at in (3, 0, 2, 1)]
    assert text_of(*rows[:2]) == (
        "2 partitions of t set back at once, by 17 offsets together: t-0 90 to 80, t-3 87 to 80"
    )
    assert text_of(*rows[:3]).endswith("t-0 90 to 80, t-2 88 to 80, t-3 87 to 80")
    assert text_of(*rows).endswith("t-0 90 to 80, t-1 89 to 80, t-2 88 to 80, 1 more")


def test_rewinds_of_several_requests_or_of_one_partition_again_are_a_loop():
    again = "set back 4 times in 3.0 s, between 80 and 90, by 19 offsets together"
    one = moved("rewind", 0, 90, 80), moved("rewind", 3, 89, 80, count=3)
    assert text_of(*one) == f"2 partitions of t {again}"
    other = moved("rewind", 0, 90, 80), moved("rewind", 3, 89, 80, position=8)
    assert text_of(*other) == f"2 partitions of t {again.replace('4 times', '2 times')}"


def test_skips_of_one_request_say_how_and_where_they_are_in_doubt():
    rows = [moved("skip", at, 10, 15 + at, why="a seek", doubt=", or not" if at == 1 else "")
            for at in (0, 1)]  # fmt: skip
    assert text_of(*rows) == (
        "2 partitions of t set forward at once, a seek: about 11 records never committed: "
        "t-0 10 to 15, t-1 10 to 16, or not"
    )
    removed = [one | {"removed_ms": ms} for one, ms in zip(rows, (T0 + 500, T0), strict=True)]
    assert "2 partitions of t removed from 2026-11-18T11:06:40.000Z to " in text_of(*removed)
    same = [one | {"removed_ms": T0} for one in rows]
    assert "removed at 2026-11-18T11:06:40.000Z, resumed further on: about 11" in text_of(*same)
    unknown = [one | {"removed_ms": None} for one in rows]
    assert "t removed, resumed further on: about 11 records" in text_of(*unknown)
    back = [moved("rewind", at, 9, 5 - at, removed_ms=T0) for at in (0, 1)]
    assert text_of(*back) == (
        "2 partitions of t removed at 2026-11-18T11:06:40.000Z, resumed further back, "
        "by 9 offsets together: t-0 9 to 5, t-1 9 to 4"
    )


@pytest.mark.parametrize(
    ("owners", "text"),
    [
        ("c", "owned by c (h)"),
        ("cde", "owned by c (h), d (h), e (h)"),
        ("cdef", "owned by c (h), d (h), e (h), 1 more clients"),
    ],
)
def test_three_clients_that_own_the_partitions_are_named(owners, text, tmp_path):
    members = [member(f"m{at}", clientId=one, held={"t": [at]}) for at, one in enumerate(owners)]
    loop = [commit(at, dict.fromkeys(range(len(owners)), offset))
            for at, offset in enumerate((9, 5, 9, 5, 9, 5))]  # fmt: skip
    (view,) = read_partitions([written(tmp_path, life(0, 1, *members), *loop)])
    (row,) = audit.rows(view, audit.Parameters(only=("rewind",)))
    assert row["detail"].endswith(f"; {text}")
    assert row["members"] == [f"m{at}" for at in range(len(owners))]
    assert [client["client_id"] for client in row["clients"]] == list(owners)
