"""Findings of an audit at the limits of its thresholds, from handmade records."""

from types import SimpleNamespace

import pytest

from coterie.insight.offsets.commit_findings import in_seconds
from coterie.insight.offsets.divergence import Live
from coterie.insight.questions import audit, audit_groups
from coterie.insight.questions.audit_loops import partitions_of
from coterie.insight.questions.server_log import JOINED, SEEN
from coterie.insight.questions.server_log_lines import REQUESTS, BrokerLogLine
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import (
    Client,
    GroupHistory,
    read_partitions,
)
from support.log_writer import batch, commit_key, commit_value, group_key, group_value


def facts_of(folder, *batches):
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    (view,) = read_partitions([folder])
    return view


def commits(*offsets):
    """One batch for each (topic, offset), at offsets and times 0, 1, 2, ... of group `g`."""
    return [
        batch(at, [(at, commit_key(1, b"g", topic, 0), commit_value(offset, -1, b"", at))])
        for at, (topic, offset) in enumerate(offsets)
    ]


def life_of(*generations):
    """(time in ms, generation) of each record."""
    rows = [
        {"timestamp": time, "generation": number, "tombstone": False, "log_offset": at}
        | {"file": "f", "position": 0}
        for at, (time, number) in enumerate(generations)
    ]
    return GroupHistory("g", [], rows, {}, False)


@pytest.mark.parametrize(("trusted_from_ms", "found"), [(999, 1), (1000, 1), (1001, 0)])
def test_a_gap_counts_from_the_very_time_on_from_which_the_log_is_whole(trusted_from_ms, found):
    gaps = audit_groups.generation_gaps(life_of((1000, 1), (1001, 3)), trusted_from_ms)
    assert len(list(gaps)) == found


def test_a_record_without_a_time_may_be_of_before_the_log_is_whole():
    life = life_of((None, 1), (2000, 3), (3000, 5))
    for trusted_from_ms, offsets in ((None, [1, 2]), (1000, [2])):
        gaps = audit_groups.generation_gaps(life, trusted_from_ms)
        assert [gap["log_offset"] for gap in gaps] == offsets


def test_the_generations_of_a_group_that_was_deleted_begin_anew(tmp_path):
    values = group_value(4, [b"m"]), None, None, group_value(1, [b"m"]), group_value(2, [b"m"])
    view = facts_of(
        tmp_path, *(batch(at, [(at, group_key(b"g"), value)]) for at, value in enumerate(values))
    )
    assert list(audit.rows(view, audit.Parameters(only=("generation_gap",)))) == []


@pytest.mark.parametrize(("time", "known"), [(None, None), (-1, None), (0, 0), (7, 7)])
def test_a_records_time_is_known_from_0_on(time, known):
    row = {"timestamp": time, "log_offset": 4, "file": "f", "position": 9}
    place = {"timestamp": known, "log_offset": 4, "file": "f", "position": 9}
    assert audit_groups.record_of(row) == place | {"previous_log_offset": None}
    assert audit_groups.record_of(row, {"log_offset": 0})["previous_log_offset"] == 0


def test_findings_of_a_kind_stand_by_their_place_in_the_log(tmp_path):
    offsets = [(b"a", 9), (b"b", 9), (b"b", 3), (b"a", 3)]
    rows = audit.rows(facts_of(tmp_path, *commits(*offsets)), audit.Parameters())
    assert [(row["topic"], row["log_offset"]) for row in rows] == [("b", 2), ("a", 3)]


def test_the_record_named_follows_the_last_one_that_gives_the_live_members(tmp_path):
    lives = [[b"a"], [b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"b", b"c"]]
    view = facts_of(
        tmp_path,
        *(
            batch(at, [(at, group_key(b"g"), group_value(at + 1, members))])
            for at, members in enumerate(lives)
        ),
    )
    live_group = {"group_id": "g", "members": [{"member_id": "a"}, {"member_id": "b"}]}
    (row,) = audit.rows(view, audit.Parameters(only=("divergence",), live=Live({"g": live_group})))
    assert (row["detail"], row["log_offset"]) == ("member c in the log, not live", 2)


def test_what_is_known_of_each_partition_stands_by_topic_and_number():
    """A finding is of one partition, or lists its partitions; one without a count is one."""

    def place(topic, partition, **fields):
        return {"topic": topic, "partition": partition, **fields}

    rows = [
        place("u", 1, count=3, lowest_offset=40, highest_offset=90),
        place("t", 10),
        place("u", 1, lowest_offset=50, highest_offset=99),
        place(None, 0), place("t", None),
        {"partitions": [place("t", 2, count=5, lowest_offset=7), place("t", 10, count=4)],
         "topic": "x", "partition": 0},
    ]  # fmt: skip
    found = [tuple(row.values()) for row in partitions_of(rows)]
    assert found == [
        ("t", 2, 5, 7, None), ("t", 10, 1 + 4, None, None), ("u", 1, 3 + 1, 40, 99),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "text"),
    [(0, 0, " in 0.0 s"), (500, 2000, " in 1.5 s"), (0, 90_000_000, " in 25.0 h"), (None, 5, ""),
     (5, None, ""), (-1, 5, ""), (5, -1, "")],
)  # fmt: skip
def test_the_time_of_a_loop_is_told_if_both_its_ends_have_one(first_ms, last_ms, text):
    assert in_seconds(first_ms, last_ms) == text


def fights(times, limit, window_ms):
    """Findings of a static id that is taken over at each of these times."""
    rows = [
        {"timestamp": time, "log_offset": 10 + at, "file": f"f{at}", "position": 5 * at,
         "replaced": [("i", f"m{at}", f"m{at + 1}")]}
        for at, time in enumerate(times)
    ]  # fmt: skip
    history = GroupHistory("g", [], rows, {"m0": Client("c", "/h", "i")}, from_start=True)
    view = SimpleNamespace(is_complete_at=lambda ms: ms is None or ms >= 0)
    return list(audit_groups.static_fights(view, history, limit, window_ms, ()))


@pytest.mark.parametrize(
    ("times", "limit", "window_ms", "place"),
    [
        ((0, 1000, 2000), 3, 2000, (12, 10)),
        ((0, 1000, 2000), 3, 1999, None),
        ((0, 1000, 2000), 4, 9000, None),
        ((0, 9000, 9500, 10_000, 10_100), 3, 1000, (13, 11)),
        ((0, 9000, 9500, 10_001, 10_500, 10_900), 3, 1000, (14, 12)),
        ((7000,), 1, 0, (10, 10)),
        ((0, 500), 2, 500, (11, 10)),
    ],
)
def test_a_static_id_is_contested_by_so_many_takeovers_within_the_window(
    times, limit, window_ms, place
):
    found = fights(times, limit, window_ms)
    assert [(row["log_offset"], row["previous_log_offset"]) for row in found] == (
        [] if place is None else [place]
    )
    for row in found:
        assert (row["first"], row["last"], row["count"]) == (times[0], times[-1], len(times))
        assert row["timestamp"] == times[place[0] - 10]
        assert row["members"] == [f"m{at + 1}" for at in range(len(times))]
        assert row["detail"].startswith(f"i taken over {len(times)} times; the records keep")
        assert "the first client, c (h)" in row["detail"]


def test_the_last_twenty_members_that_took_an_id_over_are_named():
    (row,) = fights(range(25), 3, 10)
    assert row["members"] == [f"m{at}" for at in range(6, 26)]


@pytest.mark.parametrize(
    ("generations", "details"),
    [
        ((3, 3, 4), []),
        ((4, 3), [("from generation 4 back to 3", 2)]),
        ((4, 1), [("from generation 4 back to 1", 4)]),
        ((1, 3, 6), [("generation 2 has no record", 1), ("generations 4 to 5 have no record", 2)]),
    ],
)
def test_generations_go_on_by_one_or_not_at_all(generations, details):
    life = life_of(*((1000 + at, number) for at, number in enumerate(generations)))
    gaps = [(gap["detail"], gap["count"]) for gap in audit_groups.generation_gaps(life, None)]
    assert gaps == details


@pytest.mark.parametrize(
    ("counts", "text"), [((3, 1), "by a (h) 3 times, by b (h) once"), ((1, 2), "by b (h) 2 times")]
)
def test_rivals_of_a_request_log_stand_by_how_often_each_took_over(counts, text):
    takers = ["a"] * counts[0] + ["b"] * counts[1]
    clients = {f"m{at + 1}": Client(name, "/h", None) for at, name in enumerate(takers)}
    takeovers = [audit_groups.Takeover({}, f"m{at}", f"m{at + 1}") for at in range(len(takers))]
    history = SimpleNamespace(taken_over=frozenset(), clients={"m0": Client("z", "/i", "i")})
    found, rows = audit_groups.rivals(history, takeovers, clients)
    assert found.startswith(f": {text}")
    assert found.endswith("first held by z (i) [request log]")
    assert "not in the request log" not in found
    assert [row["client_id"] for row in rows] == ["z", *dict.fromkeys(takers)]
    some = {"m1": clients["m1"]}
    found, _ = audit_groups.rivals(history, takeovers, some)
    assert f", {len(takers) - 1} not in the request log, first" in found


def commits_with(*pairs, step_ms=10):
    """One batch for each (offset, bytes of metadata) of a key, at times 1000, 1010, 1020, ..."""
    key = commit_key(1, b"g", b"t", 0)
    return [
        batch(at, [(ms, key, commit_value(offset, -1, b"m" * size, ms))])
        for at, (offset, size) in enumerate(pairs)
        for ms in (1000 + step_ms * at,)
    ]


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_large_metadata_has_the_first_and_last_time_and_the_first_of_the_largest(
    piece_bytes, tmp_path, monkeypatch
):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", piece_bytes)
    pairs = [(at, size) for at, size in enumerate((4, 5, 9, 9, 7, 4))]
    parameters = audit.Parameters(only=("large_metadata",), metadata_bytes=4)
    (row,) = audit.rows(facts_of(tmp_path, *commits_with(*pairs)), parameters)
    assert (row["count"], row["log_offset"], row["timestamp"]) == (4, 2, 1020)
    assert (row["first"], row["last"], row["previous_log_offset"]) == (1010, 1040, 1)
    assert row["detail"].startswith("9 bytes of metadata in the largest of 4")


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    ("offsets", "detail"),
    [
        ("555", "3 commits of offset 5 in 5.0 min"),
        ("5556", "3 commits of offset 5 in 5.0 min"),
        ("556555", "3 commits of offset 5 in 5.0 min"),
        ("555666", "2 times 3 commits of one offset in a row in 12.5 min"),
        ("5556666", "2 times 3 to 4 commits of one offset in a row in 15.0 min"),
        ("55", None),
    ],
)
def test_runs_of_one_offset_say_how_often_and_how_long(
    offsets, detail, piece_bytes, tmp_path, monkeypatch
):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", piece_bytes)
    commits = commits_with(*((int(offset), 0) for offset in offsets), step_ms=150_000)
    view = facts_of(tmp_path, *commits)
    rows = audit.rows(view, audit.Parameters(only=("no_progress",), no_progress=3))
    assert [row["detail"] for row in rows] == ([] if detail is None else [detail])


def test_whoever_held_a_static_id_first_is_named_by_the_request_log_if_the_record_cannot():
    """The record of a member that took the id over itself has the client of the one before it."""
    taker = {"m1": Client("a", "/h", None)}
    takeovers = [audit_groups.Takeover({}, "m0", "m1")]
    history = SimpleNamespace(taken_over={"m0"}, clients={"m0": Client("z", "/i", "i")})
    text, rows = audit_groups.rivals(history, takeovers, taker)
    assert text == ": by a (h) once [request log]"
    assert [row["client_id"] for row in rows] == ["a"]
    text, rows = audit_groups.rivals(history, takeovers, taker | {"m0": Client("y", "/j", None)})
    assert text == ": by a (h) once, first held by y (j) [request log]"
    assert [row["client_id"] for row in rows] == ["y", "a"]


def test_only_joins_of_the_group_itself_name_its_clients():
    lines = [
        BrokerLogLine(group, what, at_ms, REQUESTS, 1, "m1", client, "/h")
        for at_ms, (group, what, client) in enumerate(
            (("g", JOINED, "a"), ("h", JOINED, "b"), ("g", SEEN, "c"))
        )
    ]
    assert audit_groups.joined_by(lines, "g") == {"m1": Client("a", "/h", None)}
