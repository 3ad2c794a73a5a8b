"""Requests that set offsets back or came from outside of a group: who, how many, and how far."""

import pytest

from coterie.insight.offsets.rewinds import CommitRequest, CommitRequests
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.insight.lives import commit, life, member
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, marker

T0 = 1_795_000_000_000
BY_MEMBER = "by a member: only they can commit while the group has any"
BY_TOOL = "by a tool or a consumer outside of the group: it had no members"
BY_PRODUCER = "by a producer's transaction"
NOBODY_KNOWS = "the log does not tell whether the group had members"


def request(number, *, back=1, forward=0, first=0, producer=False, time=None):
    """A request by the number of its first record; a later segment begins at position 0 again."""
    time = T0 + number if time is None else time
    places, place = "t-0 9 to 5", (100 + number, "f", 1000 - number)
    return CommitRequest(back, 0, forward, first, 7, places, producer, time, *place)


@pytest.mark.parametrize(
    ("who", "fields", "event", "text"),
    [
        ("members", {"back": 2, "forward": 3, "first": 4}, "rewind",
         f"2 offsets set back: t-0 9 to 5; {BY_MEMBER}"),
        ("unknown", {"back": 1}, "rewind", f"1 offset set back: t-0 9 to 5; {NOBODY_KNOWS}"),
        ("outside", {"back": 1, "forward": 3, "first": 4}, "reset",
         f"1 offset set back, 3 offsets set forward, 4 offsets set for the first time: t-0 9 to 5; "
         f"{BY_TOOL}"),
        ("outside", {"back": 0, "first": 1}, "reset",
         f"1 offset set for the first time: t-0 9 to 5; {BY_TOOL}"),
        ("outside", {"back": 0}, "reset", f"offsets set to what they were: t-0 9 to 5; {BY_TOOL}"),
        ("outside", {"back": 2, "forward": 3, "producer": True}, "rewind",
         f"2 offsets set back: t-0 9 to 5; {BY_PRODUCER}"),
        ("members", {"producer": True}, "rewind", f"1 offset set back: t-0 9 to 5; {BY_PRODUCER}"),
    ],
)  # fmt: skip
def test_a_request_says_how_many_offsets_it_set_and_who_could_send_it(who, fields, event, text):
    assert request(3, **fields).row(who) == {
        "event": event, "timestamp": T0 + 3, "until": T0 + 3, "log_offset": 103, "cause": text,
        "count": 7, "file": "f", "position": 997,
    }  # fmt: skip


@pytest.mark.parametrize(("time", "timestamp"), [(0, 0), (-1, None)])
def test_a_request_at_time_0_has_that_time(time, timestamp):
    row = request(3, time=time).row("members")
    assert (row["timestamp"], row["until"]) == (timestamp, timestamp)


def collected(back, every, until=T0 + 77):
    back, every = (list(map(request, range(count))) for count in (back, every))
    return CommitRequests(back[:10], len(back), until, every)


@pytest.mark.parametrize(
    ("back", "of_every", "every", "rows"),
    [(3, 10, True, 10), (3, 11, True, 3), (3, 10, False, 3), (0, 0, True, 0), (10, 11, True, 10)],
)
def test_all_requests_from_outside_have_rows_unless_they_are_many(back, of_every, every, rows):
    found = collected(back, of_every).rows("outside", every)
    assert [row["log_offset"] for row in found] == [100 + at for at in range(rows)]
    assert not any("more request" in row["cause"] for row in found)


@pytest.mark.parametrize(("count", "text"), [(11, "1 more request"), (13, "3 more requests")])
def test_after_the_tenth_they_are_counted_with_the_time_of_the_last(count, text):
    *others, last = collected(count, 11).rows("members", False)
    assert last["cause"].endswith(f"; {text} set offsets back")
    assert (last["log_offset"], last["until"]) == (109, T0 + 77)
    assert [row["until"] for row in others] == [T0 + at for at in range(9)]


def explained(folder, *batches):
    """Rows of requests, the same from a log as one and from one in pieces."""
    place = folder / "__consumer_offsets-0"
    place.mkdir(parents=True)
    offset = 0
    for records, header in batches:
        data = records if isinstance(records, bytes) else batch(offset, records, **header)
        (place / f"{offset:020}.log").write_bytes(data)
        offset += 1 if isinstance(records, bytes) else len(records)
    (segments,) = find_segments([place]).partitions().values()
    parameters = explain.Parameters()
    rows = list(explain.rows(PartitionView(0, segments), parameters))
    assert answer_in_pieces(segments, explain, parameters, {}) == rows
    return [row for row in rows if row["event"] in ("reset", "rewind")]


def test_four_partitions_that_a_request_sets_are_named_by_three_of_them(tmp_path):
    before = commit(T0 + 1, {3: 90, 1: 91, 0: 92, 2: 93})
    for number, (offsets, text) in enumerate((
        ({3: 80, 1: 81, 0: 82, 2: 83},
         "4 offsets set back: t-3 90 to 80, t-1 91 to 81, t-0 92 to 82, 1 more"),
        ({3: 90, 1: 81, 0: 82, 2: 83},
         "3 offsets set back: t-1 91 to 81, t-0 92 to 82, t-2 93 to 83"),
    )):  # fmt: skip
        (row,) = explained(
            tmp_path / str(number),
            ([life(T0, 1, member("m"))], {}),
            (before, {}),
            (commit(T0 + 5, {7: 1}, b"h"), {}),
            (commit(T0 + 9, offsets), {}),
        )
        assert row["cause"] == f"{text}; {BY_MEMBER}"
        assert (row["timestamp"], row["log_offset"]) == (T0 + 9, 6)
        assert row["count"] == int(text[0])


@pytest.mark.parametrize(
    ("generation", "who"), [(1, BY_TOOL), (0, BY_TOOL), (2, NOBODY_KNOWS), (None, BY_TOOL)]
)
def test_before_a_group_has_its_first_generation_it_has_no_members(generation, who, tmp_path):
    lives = [] if generation is None else [([life(T0 + 9, generation, member("m"))], {})]
    (row,) = explained(tmp_path, (commit(T0, {0: 9}), {}), (commit(T0 + 1, {0: 5}), {}), *lives)
    assert row["cause"].endswith(who)


def test_of_a_transaction_only_what_takes_effect_is_a_rewind(tmp_path):
    producer = {"producer_id": 5, "transactional": True}
    (row,) = explained(
        tmp_path,
        ([life(T0, 1, member("m"))], {}),
        (commit(T0 + 1, {0: 90, 1: 90}), {}),
        (commit(T0 + 2, {0: 10}), producer),
        (marker(4, 5, T0 + 3, commit=False), {}),
        (commit(T0 + 4, {1: 20}), producer),
        (marker(6, 5, T0 + 5, commit=True), {}),
        ([life(T0 + 6, 2)], {}),
    )
    assert row["cause"] == f"1 offset set back: t-1 90 to 20; {BY_PRODUCER}"
    assert (row["timestamp"], row["log_offset"]) == (T0 + 4, 5)


def test_of_time_0_before_the_log_is_complete_nobody_knows_who_had_members(tmp_path):
    """The last segment begins beyond the end of the one before: the log is complete since 500."""
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    early = [batch(at, commit(0, {0: offset})) for at, offset in enumerate((9, 5))]
    late = [batch(9 + at, commit(500 + at, {0: offset})) for at, offset in enumerate((8, 4))]
    for base_offset, batches in ((0, early), (9, late)):
        (place / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    (segments,) = find_segments([place]).partitions().values()
    view = PartitionView(0, segments)
    rows = [row for row in explain.rows(view, explain.Parameters()) if row["event"] != "commits"]
    assert view.trusted_from_ms == 500
    assert [(row["timestamp"], row["cause"].rpartition("; ")[2]) for row in rows[:-1]] == [
        (0, NOBODY_KNOWS),
        (501, BY_TOOL),
    ]
