"""Skips, stalls and open transactions at each bound of the rules in docs/audit.md."""

import pytest

from coterie.insight.questions import audit, metrics
from coterie.insight.records.partition_view import PartitionView, read_partitions
from coterie.log.folders import find_segments
from support.insight.lives import commit, life, member
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, marker

S = 1_795_000_000_000  # a slice of ten seconds begins
HOUR = 3_600_000


def rows_of(folder, kind, batches, **thresholds):
    """The findings of a kind; each batch is a segment, the same batch by batch."""
    place = folder / "__consumer_offsets-0"
    place.mkdir(parents=True)
    offset = 0
    for one in batches:
        records, header = one if isinstance(one, tuple) else (one, {})
        data = records if isinstance(records, bytes) else batch(offset, records, **header)
        (place / f"{offset:020}.log").write_bytes(data)
        offset += 1 if isinstance(records, bytes) else len(records)
    (segments,) = find_segments([place]).partitions().values()
    parameters = audit.Parameters(only=(kind,), **thresholds)
    rows = list(audit.rows(PartitionView(0, segments), parameters))
    assert answer_in_pieces(segments, audit, parameters, {}) == rows
    return rows


def check(folder, kind, cases):
    """Each case is: what it is, whether it is a finding, the batches, the thresholds."""
    for number, (what, is_found, batches, *thresholds) in enumerate(cases):
        rows = rows_of(folder / str(number), kind, batches, **dict(*thresholds))
        assert len(rows) == is_found, (what, rows)
        if not thresholds and kind in COUNTED:
            field, count = COUNTED[kind]
            assert counted(folder / str(number), field) == sum(map(count, rows)), what


COUNTED = {  # the field of metrics, and how much of it a finding is
    "skip": ("skipped", lambda row: row["offset"] - row["previous_offset"]),
    "stall": ("stalled", lambda row: row["detail"].startswith("stands")),
}


def counted(folder, field):
    """What metrics count of all groups, by the same thresholds."""
    (view,) = read_partitions([folder])
    rows = metrics.rows(view, metrics.Parameters())
    return sum(row[field] for row in rows if row["topic"] is None)


# ---- stalls

OWNER = [life(S - 500, 1, member("m", held={"t": [0, 1]}))]


def stand(pause_ms, *, moves=10, longest_ms=1000, active=range(1, 99), open_=True):
    """Partition 0 moves, then stands so long; partition 1 moves in these slices of ten seconds."""
    since, until = S + 5_000, S + 5_000 + pause_ms
    last = range(since - moves + 2, since + 1)
    times = [last[0] - longest_ms - 1, last[0] - longest_ms, *last]
    others = [S - 100, *(S + 10_000 * n + 77 * (n % 2) for n in active)]
    commits = [(at, commit(at, {0: 7 * n})) for n, at in enumerate(times)]
    commits += [(at, commit(at, {1: 3 * n})) for n, at in enumerate(others) if at < until]
    commits.sort(key=lambda one: one[0])
    return [OWNER, *(one for _, one in commits), commit(until, {2: 5} if open_ else {0: 9000})]


@pytest.mark.parametrize("open_", [True, False])
def test_a_stall_is_long_enough_after_enough_moves_and_shorter_pauses(open_, tmp_path):
    def case(pause_ms, **how):
        return stand(pause_ms, open_=open_, **how)

    check(
        tmp_path,
        "stall",
        [
            ("a minute", 1, case(60_000)),
            ("a millisecond less", 0, case(59_999)),
            ("five times the longest before", 1, case(60_000, longest_ms=12_000)),
            ("not quite five times", 0, case(60_000, longest_ms=12_001)),
            ("ten moves before", 1, case(60_000, moves=10)),
            ("nine moves before", 0, case(60_000, moves=9)),
            ("half of six slices", 1, case(70_000, active=(1, 2, 6))),
            ("two of six slices", 0, case(70_000, active=(1, 6))),
            ("three of five slices", 1, case(60_000, active=(1, 3, 5))),
            ("two of five slices", 0, case(60_000, active=(1, 5))),
            ("slices that it stands in part of do not count", 0,
             case(70_000, active=(0, 1, 2, 7))),
            ("a shorter threshold", 1, case(30_000), {"stall_ms": 30_000}),
        ],
    )  # fmt: skip


def test_a_stall_of_milliseconds_is_judged_by_two_slices_at_least(tmp_path):
    """The shortest slices are of 8 ms."""

    def case(pause_ms):
        moves = [commit(S, {0: n, 1: n}) for n in range(11)]
        others = [commit(S + n, {1: 11 + n}) for n in range(1, pause_ms, 5)]
        return [OWNER, *moves, *others, commit(S + pause_ms, {0: 9000})]

    check(
        tmp_path,
        "stall",
        [("two", 1, case(24), {"stall_ms": 1}), ("one", 0, case(23), {"stall_ms": 1})],
    )


def test_a_time_beyond_all_slices_mixes_no_groups_up(tmp_path):
    later = [
        commit(at, {0: n}, group)
        for n, at in enumerate((S, S + 1, 1 << 62))
        for group in (b"g", b"h")
    ]
    check(tmp_path, "stall", [("g stood, h too", 0, [*stand(60_000)[:-1], *later])])


def test_a_stall_names_since_when_until_when_and_the_longest_pause_before(tmp_path):
    batches = stand(83_000, longest_ms=1_234, open_=False)
    (row,) = rows_of(tmp_path, "stall", batches)
    assert row["detail"] == (
        "stood at 70 for 1m23s from 2026-11-18T11:06:45.000Z on, while others of the topic move; "
        "owned by c (h); its longest pause before was 1s234ms"
    )
    assert (row["first"], row["timestamp"], row["offset"]) == (S + 5_000, S + 88_000, 70)
    moved = batches.index(commit(S + 5_000, {0: 70}))
    assert (row["previous_log_offset"], row["log_offset"]) == (moved, len(batches) - 1)


def test_moves_at_the_time_0_count_also_where_a_part_of_the_log_begins(tmp_path):
    owner = [life(0, 1, member("m", held={"t": [0, 1]}))]
    later = [commit(1000 * n, {1: 100 + n}) for n in range(1, 61)]

    def case(others, moves):
        begin = [commit(0, {1: n}) for n in range(others)]
        return [owner, *begin, *(commit(0, {0: n}) for n in range(moves + 1)), *later]

    cases = [(f"{moves} moves after {others} others", moves == 10, case(others, moves))
             for moves in (9, 10) for others in (3, 50)]  # fmt: skip
    check(tmp_path, "stall", cases)


def test_commits_without_a_time_are_no_moves(tmp_path):
    """Records of Kafka before 0.10 have none; nor do they cut a pause in two."""

    def without(batches, *times):
        """The log, with no time in the commits of these times."""
        return [
            [(-1, key, value) for _, key, value in one] if one[0][0] in times else one
            for one in batches
        ]

    def between(longest_ms):
        """Within the longest pause; where a part of the log begins, too."""
        batches, at = stand(60_000, longest_ms=longest_ms), 8
        batches[4:4] = [*(commit(-1, {1: 900 + n}) for n in range(at - 4)), commit(-1, {0: 10})]
        return batches

    check(
        tmp_path,
        "stall",
        [
            ("nine of ten moves", 0, without(stand(60_000, moves=10), S + 5_000 - 2)),
            ("ten of eleven moves", 1, without(stand(60_000, moves=11), S + 5_000 - 2)),
            ("three of six slices", 1, stand(70_000, active=(1, 2, 6))),
            ("two of six slices", 0, without(stand(70_000, active=(1, 2, 6)), S + 60_000)),
            ("no move", 0, without(stand(60_000), *range(S - 9_000, S + 99_000))),
            ("five times the longest before", 1, between(12_000)),
            ("not quite five times", 0, between(12_001)),
        ],
    )  # fmt: skip


def test_a_removal_ends_a_stand_and_what_comes_after_begins_anew(tmp_path):
    """A partition whose offset was removed does not stand; its moves before count on."""
    cases = stand(60_000)
    removal = commit(S + 5_001, {0: None})
    at = cases.index(commit(S + 5_000, {0: 70})) + 1
    check(tmp_path, "stall", [("removed", 0, [*cases[:at], removal, *cases[at:]])])


# ---- seeks


def seek(step, *, ordinary=10, steps=20, after_ms=1000, between=(), last=None, at=S):
    """``steps`` steps of a second each, ``last`` the one before a step that is far larger."""
    offsets = [ordinary * n for n in range(steps)]
    offsets[-1] = offsets[-2] + (ordinary if last is None else last)
    moves = [commit(at + 1000 * n, {0: offset}) for n, offset in enumerate(offsets)]
    before_ms = at + 1000 * (steps - 1)
    jump = commit(before_ms + after_ms, {0: offsets[-1] + step})
    rejoined = [[life(before_ms + ms, 2 + n, member("n"))] for n, ms in enumerate(between)]
    return [[life(at - 5, 1, member("m"))], *moves, *rejoined, jump]


def test_a_seek_after_a_commit_without_a_time_took_an_unknown_time(tmp_path):
    appends = seek(100_000, after_ms=HOUR, between=[HOUR - 1000])
    appends[20] = commit(-1, {0: 190})  # the last one before
    (row,) = rows_of(tmp_path / "log", "skip", appends)
    assert row["detail"].startswith("from 190 forward to 100190, by 100000, in an unknown time;")


def test_a_seek_is_far_larger_and_faster_than_any_other_step(tmp_path):
    def back(step, *ago_ms):
        """A step an hour after the one before, so long after rebalances."""
        return seek(step, after_ms=HOUR, between=[HOUR - ms for ms in ago_ms])

    cases = [
        ("1,000 records in a second", 1, seek(1000)),
        ("999 records", 0, seek(999)),
        ("as many as the least", 1, seek(1500), {"skip_by": 1500}),
        ("fewer than the least", 0, seek(1499), {"skip_by": 1500}),
        ("at the least rate", 1, seek(2500, after_ms=2500)),
        ("below the least rate", 0, seek(2500, after_ms=2501)),
        ("within a second it counts as a second", 0, seek(1000, after_ms=1), {"skip_rate": 1001}),
        ("within a second, at the rate", 1, seek(1000, after_ms=1)),
        ("ten times as far as the others", 1, seek(1010, ordinary=101)),
        ("not quite ten times", 0, seek(1009, ordinary=101)),
        ("twenty steps with it", 1, seek(1000, steps=20)),
        ("nineteen steps with it", 0, seek(1000, steps=19)),
        ("the commit before moved on by one", 1, seek(1000, last=1)),
        ("the commit before did not move", 0, seek(1000, steps=21, last=0)),
        ("the commit before went back", 0, seek(1000, steps=21, last=-1)),
        ("a hundred times since a rebalance", 1, back(100_000, 1000)),
        ("less than that", 0, back(99_999, 1000)),
        ("a rebalance a little earlier", 0, back(100_099, 1001)),
        ("as much faster", 1, back(100_100, 1001)),
        ("a rebalance at the same time", 1, back(100_000, 0)),
        ("a rebalance after it by the clock", 0, back(100_000, -1)),
        ("the last rebalance counts", 1, back(100_000, HOUR - 5, 900)),
        ("a rebalance before the commit before", 0, back(100_000)),
    ]  # fmt: skip
    check(tmp_path, "skip", cases)


def test_a_seek_after_a_rebalance_at_the_time_0(tmp_path):
    """The commit before has no time, so only the rebalance shows how fast it was."""
    moves = [commit(-1, {0: 10 * n}) for n in range(20)]
    rejoined = [life(0, 2, member("n"))]
    cases = [
        ("fast", 1, [[life(-1, 1, member("m"))], *moves, rejoined, commit(1000, {0: 100_190})]),
        ("slower", 0, [[life(-1, 1, member("m"))], *moves, rejoined, commit(1001, {0: 100_190})]),
    ]
    check(tmp_path, "skip", cases)


# ---- resets from outside


def outside(*offsets):
    """A group without members, and commits to it."""
    return [
        [life(S, 1, member("m"))],
        commit(S + 1, {0: 10}),
        [life(S + 2, 2)],
        *(commit(S + 3 + n, {0: offset}) for n, offset in enumerate(offsets)),
    ]


def test_a_reset_from_outside_passes_over_enough_records_and_comes_at_most_twice(tmp_path):
    cases = [
        ("as many as the least", 1, outside(60), {"skip_by": 50}),
        ("fewer", 0, outside(59), {"skip_by": 50}),
        ("one", 1, outside(11)),
        ("none", 0, outside(10)),
        ("twice", 2, outside(11, 20)),
        ("three times", 0, outside(11, 20, 30)),
    ]
    check(tmp_path, "skip", cases)


# ---- across removals


def resumed(*offsets):
    """Partitions 0, 1, … were at 100, were removed, and resume at these offsets."""
    return [
        commit(S, dict.fromkeys(range(len(offsets)), 100)),
        commit(S + 10, dict.fromkeys(range(len(offsets)))),
        commit(S + 20, dict(enumerate(offsets))),
    ]


def test_what_resumes_after_a_removal_differs_by_enough(tmp_path):
    check(
        tmp_path / "skip",
        "skip",
        [
            ("by one", 1, resumed(101)),
            ("by nothing", 0, resumed(100)),
            ("as many as the least", 1, resumed(150), {"skip_by": 50}),
            ("fewer", 0, resumed(149), {"skip_by": 50}),
        ],
    )
    check(
        tmp_path / "rewind",
        "rewind",
        [
            ("by one", 1, resumed(99)),
            ("by nothing", 0, resumed(100)),
            ("as many as the least", 1, resumed(50), {"rewind_by": 50}),
            ("fewer", 0, resumed(51), {"rewind_by": 50}),
        ],
    )


@pytest.mark.parametrize(("other", "is_doubtful"), [(99, True), (100, False), (101, False)])
def test_a_skip_is_doubtful_if_another_partition_of_the_topic_went_back(
    other, is_doubtful, tmp_path
):
    rows = rows_of(tmp_path, "skip", resumed(190, other))
    assert all(
        ("as other partitions of the topic were" in row["detail"], row["severity"] == "progress")
        == (is_doubtful, is_doubtful)
        for row in rows
    )
    assert rows


# ---- open transactions


def opened(since, *later, end=None):
    """A transaction of producer 5 since then, later commits of others, maybe a later own one."""
    header = {"producer_id": 5, "producer_epoch": 3, "transactional": True}
    own = [] if end is None else [(commit(end, {1: 8}), header)]
    return [(commit(since, {0: 7}), header), *(commit(at, {3: 1}, b"h") for at in later), *own]


@pytest.mark.parametrize("first", [0, S])
def test_an_open_transaction_is_old_enough_or_has_nothing_after_it(first, tmp_path):
    cases = [
        ("ten seconds", 1, opened(first, first + 10_000)),
        ("a millisecond less", 0, opened(first, first + 9_999)),
        ("nothing comes after it", 1, opened(first, first)),
        ("its last commit is the end of the log", 1, opened(first, first + 5, end=first + 5)),
        ("the log goes on after its last commit", 0, opened(first, first + 6, end=first + 5)),
        ("as old as the least", 1, opened(first, first + 500), {"open_ms": 500}),
        ("younger", 0, opened(first, first + 499), {"open_ms": 500}),
        ("it has ended", 0, [*opened(first, first + 90_000), marker(2, 5, first, commit=True)]),
    ]
    check(tmp_path, "open_transaction", cases)


def test_a_transaction_of_one_offset_names_it_and_one_without_a_time_says_so(tmp_path):
    (row,) = rows_of(tmp_path / "1", "open_transaction", opened(S, S + 20_000))
    assert (row["topic"], row["partition"], row["offset"], row["timestamp"]) == ("t", 0, 7, S)
    (row,) = rows_of(tmp_path / "2", "open_transaction", opened(S, S + 20_000, end=S + 21_000))
    assert (row["topic"], row["partition"], row["offset"]) == (None, None, None)
    (row,) = rows_of(tmp_path / "3", "open_transaction", opened(-1, S))
    assert row["timestamp"] is None
    assert row["detail"] == "producer 5 (epoch 3) holds 1 offset since an unknown time: t-0"
    (row,) = rows_of(tmp_path / "4", "open_transaction", opened(0, S))
    assert row["timestamp"] == 0
    assert "since 1970-01-01T00:00:00.000Z: t-0" in row["detail"]


def test_an_open_transaction_has_the_last_offset_of_each_partition_by_the_first_commit(tmp_path):
    def own(at, offsets, producer=5, epoch=3, group=b"g"):
        header = {"producer_id": producer, "producer_epoch": epoch, "transactional": True}
        return commit(at, offsets, group), header

    batches = [
        own(S, {3: 30}),
        own(S + 1, {3: 1}, 4, 9),
        own(S + 2, {0: 10, 7: 70}),
        own(S + 3, {3: 31}, group=b"h"),
        own(S + 4, {3: 33}),
        *(own(S + 5 + n, {1: 1}, group=b"i%d" % n) for n in range(3)),
        commit(S + 60_000, {9: 9}),
    ]
    rows = {
        (row["group_id"], row["log_offset"]): row
        for row in rows_of(tmp_path, "open_transaction", batches)
    }
    detail = "holds 3 offsets since 2026-11-18T11:06:40.000Z: t-3, t-0, t-7"
    first = rows["g", 0]
    assert first["detail"] == f"producer 5 (epoch 3) {detail}"
    assert (first["count"], first["timestamp"], first["position"]) == (4, S, 0)
    assert (first["topic"], first["partition"], first["offset"]) == (None, None, None)
    other = rows["g", 1]
    assert other["detail"].startswith("producer 4 (epoch 9) holds 1 offset since ")
    assert (other["count"], other["partition"], other["offset"]) == (1, 3, 1)
    assert len(rows) == 6
    assert (rows["h", 4]["offset"], rows["h", 4]["timestamp"]) == (31, S + 3)


def test_a_group_that_was_empty_before_the_log_is_complete_may_have_had_members_since(tmp_path):
    """The last segment begins beyond the end of the one before: the log is complete since 500."""
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    early = [[life(100, 1, member("m"))], [life(200, 2)]]
    late = [commit(500, {0: 10}), commit(600, {0: 700})]
    for base_offset, parts in ((0, early), (9, late)):
        data = b"".join(batch(base_offset + at, one) for at, one in enumerate(parts))
        (place / f"{base_offset:020}.log").write_bytes(data)
    (view,) = read_partitions([place])
    assert view.trusted_from_ms == 500
    assert list(audit.rows(view, audit.Parameters(only=("skip",)))) == []
