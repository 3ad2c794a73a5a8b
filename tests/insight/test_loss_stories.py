"""What a person on call finds of lost and repeated records, in handmade and in golden logs."""

import json

import pytest

from coterie.insight.questions import audit, undo
from support.commandline import coterie_ok
from support.golden_data import INCIDENTS, json_of, log, records, wide
from support.insight.healthy_hours import HABITS, healthy_log
from support.insight.lives import commit, life, member, written
from support.insight.models import question_rows
from support.log_writer import batch

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_795_000_000_000
KINDS = ("skip", "stall", "open_transaction")


def findings(folder, *kinds, **parameters):
    parameters = audit.Parameters(only=kinds, **parameters)
    return question_rows(folder, audit, parameters)


def away_for_eight_days(resumed):
    """A group stops, its offsets expire, and it comes back at other offsets."""
    removed, back = START + 7 * DAY + 300_000, START + 8 * DAY
    return (
        life(START, 1, member("m", held={"t": [0, 1]})),
        commit(START + 5000, {0: 167, 1: 170}),
        life(START + 6000, 2, state_ms=START + 6000),
        [*commit(removed, {0: None, 1: None}), life(removed, None)],
        life(back, 1, member("m", held={"t": [0, 1]})),
        commit(back + 5000, resumed),
    )


def test_offsets_that_expired_while_a_group_was_away_are_skipped_records(tmp_path):
    written(tmp_path, *away_for_eight_days({0: 590, 1: 588}))
    (both,) = findings(tmp_path, "skip")  # one request: one finding
    assert (both["topic"], both["partition"], both["count"]) == ("t", None, 2)
    bounds = [(place["lowest_offset"], place["highest_offset"]) for place in both["partitions"]]
    assert bounds == [(167, 590), (170, 588)]
    assert both["detail"].startswith(
        "2 partitions of t removed at 2026-11-25T11:11:40.000Z, resumed further on: "
        f"about {423 + 418} records never committed: t-0 167 to 590, t-1 170 to 588"
    )
    assert both["timestamp"] == START + 8 * DAY + 5000
    (first,) = findings(tmp_path, "skip", skip_by=420)
    assert (first["partition"], first["previous_offset"], first["offset"]) == (0, 167, 590)
    assert first["detail"] == (
        "committed 167, removed at 2026-11-25T11:11:40.000Z, resumed near 590: "
        "about 423 records never committed; or read again, if auto.offset.reset was earliest"
    )


def test_a_group_that_comes_back_at_the_earliest_offset_reads_again(tmp_path):
    written(tmp_path, *away_for_eight_days({0: 100, 1: 170}))
    (row,) = findings(tmp_path, "skip", "rewind")
    assert (row["kind"], row["partition"], row["previous_offset"]) == ("rewind", 0, 167)
    assert row["detail"] == "from 167, removed at 2026-11-25T11:11:40.000Z, back to 100, by 67"


def test_expire_shows_the_removal_though_the_offset_was_committed_again(tmp_path):
    written(tmp_path, *away_for_eight_days({0: 590, 1: 588}))
    arguments = ("expire", tmp_path, "--format", "json")
    rows = json.loads(coterie_ok(*arguments, "--status", "removed").stdout)
    assert [(row["partition"], row["offset"], row["rule"]) for row in rows] == [
        (0, 167, "empty_since"),
        (1, 170, "empty_since"),
    ]
    assert {row["removed_at"] for row in rows} == {START + 7 * DAY + 300_000}
    everything = json.loads(coterie_ok(*arguments).stdout)
    assert [row["status"] for row in everything] == ["removed", "kept", "removed", "kept"]
    table = coterie_ok("expire", tmp_path, "--status", "removed").stdout
    assert "Stable" in table
    assert "gone" not in table


def test_a_group_whose_only_offsets_are_in_a_transaction_is_not_gone(tmp_path):
    written(tmp_path, commit(START, {0: 5}), commit(START + 10, {0: None}))
    file = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    pending = batch(2, commit(START + 20, {0: 6}), producer_id=9, transactional=True)
    file.write_bytes(file.read_bytes() + pending)
    assert "gone" not in coterie_ok("expire", tmp_path).stdout
    rows = json.loads(coterie_ok("expire", tmp_path, "--format", "json").stdout)
    assert [(row["status"], row["rule"]) for row in rows] == [
        ("kept", "pending_transaction"),
        ("removed", "deleted"),
    ]


def test_undo_tells_of_the_removal_and_writes_the_same_file(tmp_path):
    written(tmp_path, *away_for_eight_days({0: 590, 1: 588}))
    result = coterie_ok("undo", tmp_path, "--group", "g", "--at", START + 10_000)
    assert result.stdout == "t,0,167\nt,1,170\n"
    assert "removed at 2026-11-25T11:11:40.000Z: expired" in result.stderr
    assert "the offsets of 2 partitions were removed since" in result.stderr
    rows = question_rows(tmp_path, undo, undo.Parameters(START + 10_000))
    assert {(row["removal"], row["removed_at"]) for row in rows} == {
        ("expired", START + 7 * DAY + 300_000)
    }
    longer = question_rows(tmp_path, undo, undo.Parameters(START + 10_000, 30 * DAY))
    assert {row["removal"] for row in longer} == {"deleted"}
    assert not any(
        row["note"] for row in question_rows(tmp_path, undo, undo.Parameters(START + 8 * DAY))
    )


def test_undo_tells_that_the_topic_is_another_one():
    """The topic was deleted and created again while its group went on: the golden `basic`."""
    at_ms = 1_795_237_388_000
    rows = question_rows(log("basic"), undo, undo.Parameters(at_ms), groups={"grp-with-tmp"})
    tombstones = {
        record["key"]["data"]["partition"]: record["timestamp"]
        for record in records("basic")
        if record["value"] is None and record["key"]["data"].get("group") == "grp-with-tmp"
    }
    of_topic = {row["partition"]: row for row in rows if row["topic"] == "tmp-topic"}
    assert {partition: row["removed_at"] for partition, row in of_topic.items()} == tombstones
    for row in of_topic.values():
        assert row["removal"] == "topic_deleted"
        assert f"created again, and offset {row['offset']} is of the old one" in row["note"]


def test_a_reset_forward_by_a_tool_is_a_skip_but_a_consumer_without_a_group_goes_on(tmp_path):
    appends = [
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100, 1: 10}),
        life(START + 2000, 2),
        commit(START + 60_000, {0: 700}),  # the tool
        *(commit(START + 60_000 + n, {1: 10 + n}) for n in (1, 2, 3)),
    ]
    written(tmp_path, *appends)
    (row,) = findings(tmp_path, "skip")
    assert (row["partition"], row["previous_offset"], row["offset"]) == (0, 100, 700)
    assert "by a tool or a consumer outside of the group" in row["detail"]


@pytest.mark.parametrize(
    ("repaired", "skipped"),
    [(100, None), (40, None), (130, 30)],
    ids=["whole", "in part", "beyond"],
)
def test_the_repair_of_a_reset_skips_only_what_was_never_committed(repaired, skipped, tmp_path):
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100}),
        life(START + 2000, 2),
        commit(START + 60_000, {0: 10}),
        commit(START + 61_000, {0: repaired}),
    )
    rows = findings(tmp_path, "skip")
    assert [place["highest_offset"] - place["lowest_offset"] for row in rows
            for place in row["partitions"]] == [skipped] * bool(skipped)  # fmt: skip
    assert all("up to 100 all had been committed before" in row["detail"] for row in rows)


@pytest.mark.parametrize(
    ("repaired", "skipped"),
    [((100,), None), ((40,), None), ((650, 120), 20), ((None, 50), None), ((750,), 600)],
    ids=["whole", "beyond", "in part", "by an earliest offset", "not"],
)
@pytest.mark.parametrize("removed", [False, True], ids=["reset forward", "removed, then latest"])
def test_what_a_group_was_set_back_to_is_read_and_not_skipped(removed, repaired, skipped, tmp_path):
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100}),
        life(START + 2000, 2),
        *([commit(START + 50_000, {0: None})] if removed else []),
        commit(START + 60_000, {0: 700}),
        life(START + 61_000, 3, member("m")),
        commit(START + 62_000, {0: 800}),
        life(START + 63_000, 4),
        *(commit(START + 64_000 + n, {0: offset}) for n, offset in enumerate(repaired)),
    )
    rows = findings(tmp_path, "skip")
    assert [row["highest_offset"] - row["lowest_offset"] for row in rows] == [skipped] * bool(
        skipped
    )
    assert all(("; set back to 120 later" in row["detail"]) == (skipped == 20) for row in rows)


def test_a_skip_of_several_partitions_names_what_was_never_committed(tmp_path):
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100, 1: 110}),
        life(START + 2000, 2),
        commit(START + 60_000, {0: 50, 1: 50}),
        commit(START + 61_000, {0: 700, 1: 710}),
    )
    (row,) = findings(tmp_path, "skip")
    assert "1,200 records never committed: t-0 100 to 700, t-1 110 to 710" in row["detail"]


@pytest.mark.parametrize(
    ("steps", "last", "rewinds", "is_rewind"),
    [
        ((700,), 100, [], False),
        ((700, 900), 130, [], False),
        ((10, 700), 100, [(100, 10)], False),
        ((700,), 99, [], True),
        ((100,), 40, [], True),
        ((700, 700), 100, [], False),
        ((700, 100, 700), 100, [], False),
        ((700, 400), 100, [], False),
        ((10, 700), 50, [(100, 10)], False),
        ((10, 700), 5, [(100, 10)], True),
        ((700, 900, 950), 100, [], True),
    ],
    ids=[
        *("whole", "two steps", "of a repair", "beyond", "no step", "the same again", "twice"),
        *("back in two steps", "to above the lowest", "below the lowest", "a consumer's"),
    ],
)
@pytest.mark.parametrize("read", [0, 5], ids=["without members", "read meanwhile"])
def test_taking_back_what_was_set_forward_without_members_is_no_rewind(
    steps, last, rewinds, is_rewind, read, tmp_path
):
    members = [
        life(START + 61_000, 3, member("m")),
        commit(START + 62_000, {0: steps[-1] + read}),
        life(START + 63_000, 4),
    ]
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100}),
        life(START + 2000, 2),
        *(commit(START + 60_000 + n, {0: offset}) for n, offset in enumerate(steps)),
        *(members if read else []),
        commit(START + 64_000, {0: last}),
    )
    rows = findings(tmp_path, "rewind", skip_by=1000)
    found = [(row["previous_offset"], row["offset"]) for row in rows]
    assert found == rewinds + [(steps[-1] + read, last)] * bool(is_rewind or read)


ONE, OTHER = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.mark.parametrize("removed", [False, True], ids=["at once", "after tombstones"])
@pytest.mark.parametrize(
    ("before", "after", "offset", "kind"),
    [
        (ONE, OTHER, 5, None),
        (ONE, OTHER, 5000, None),
        (ONE, ONE, 5, "rewind"),
        (ONE, None, 5, "rewind"),
        (None, OTHER, 5, "rewind"),
    ],
)
def test_a_topic_that_was_created_again_is_neither_a_rewind_nor_a_skip(
    before, after, offset, kind, removed, tmp_path
):
    """Where a commit has no id, it may be of the same topic."""
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 1000}, topic_id=before),
        *([commit(START + 2000, {0: None})] * removed),
        commit(START + 3000, {0: offset}, topic_id=after),
        commit(START + 4000, {0: offset + 1}, topic_id=after),
    )
    assert [row["kind"] for row in findings(tmp_path, "rewind", "skip")] == [kind] * bool(kind)


@pytest.mark.parametrize("removed", [False, True], ids=["at once", "after tombstones"])
@pytest.mark.parametrize("fell", [False, True], ids=["", "set back before"])
def test_offsets_of_the_topic_before_hide_no_skip_and_take_none_back(removed, fell, tmp_path):
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 1000}, topic_id=ONE),
        *([commit(START + 1500, {0: 10}, topic_id=ONE)] * fell),
        life(START + 1600, 2),
        commit(START + 1700, {0: 3000}, topic_id=ONE),
        *([commit(START + 2000, {0: None})] * removed),
        commit(START + 3000, {0: 5}, topic_id=OTHER),
        commit(START + 60_000, {0: 500}, topic_id=OTHER),
        commit(START + 61_000, {0: 400}, topic_id=OTHER),
    )
    rows = findings(tmp_path, "skip")
    spans = [(row["lowest_offset"], row["highest_offset"]) for row in rows]
    assert sorted(spans) == [(5, 400), (1000, 3000)]


@pytest.mark.parametrize("between", ["a member that commits nothing", "a removal", "it itself"])
def test_what_a_member_may_have_read_or_a_removal_took_is_set_back(between, tmp_path):
    back = commit(START + 90_000, {0: 100})
    between_them = {
        "a member that commits nothing": [
            life(START + 61_000, 3, member("m")),
            life(START + 80_000, 4),
        ],
        "a removal": [commit(START + 61_000, {0: None}), life(START + 62_000, 3, member("m"))],
        "it itself": [life(START + 61_000, 3, member("m"))],
    }
    written(
        tmp_path,
        life(START, 1, member("m")),
        commit(START + 1000, {0: 100}),
        life(START + 2000, 2),
        commit(START + 60_000, {0: 700}),
        *between_them[between],
        back,
    )
    (row,) = findings(tmp_path, "rewind")
    assert (row["previous_offset"], row["offset"]) == (700, 100)


def steady(count, step_ms=1000, partitions=(0, 1, 2), first=0):
    return [
        commit(START + (first + n) * step_ms, {p: (first + n) * 10 for p in partitions})
        for n in range(count)
    ]


def test_a_seek_to_the_end_is_a_skip(tmp_path):
    jump = commit(START + 30_000, {0: 9000, 1: 310, 2: 310})
    written(tmp_path, life(START, 1, member("m")), *steady(30), jump)
    (row,) = findings(tmp_path, "skip")
    assert (row["partition"], row["previous_offset"], row["offset"]) == (0, 290, 9000)
    assert "the group's other steps are at most 20" in row["detail"]
    assert findings(tmp_path, "skip", skip_rate=10_000) == []


@pytest.mark.parametrize(
    ("name", "appends"),
    [
        ("records come after an idle time", [*steady(30), commit(START + 60_000, {0: 9000})]),
        (
            "an idle consumer commits on, then records come",
            [*steady(30), *steady(1, first=29), commit(START + 30_000, {0: 290, 1: 290, 2: 9000})],
        ),
        (
            "a backlog is read in large polls",
            [*steady(30), *(commit(START + (30 + n) * 1000, {0: 5000 * n}) for n in range(1, 6))],
        ),
        ("a short log", [*steady(5), commit(START + 5000, {0: 9000})]),
    ],
)
def test_ordinary_progress_is_no_skip(name, appends, tmp_path):
    written(tmp_path, life(START, 1, member("m")), *appends)
    assert findings(tmp_path, "skip") == [], name


def stall_log(*more, count=30, owner=(0, 1, 2)):
    """Partition 1 stands at 290 for two minutes while the others move."""
    return [
        life(START, 1, member("m", held={"t": list(owner)}, clientId="worker-7")),
        *steady(count),
        *(
            commit(START + (count + n) * 1000, {0: 300 + n, 1: (count - 1) * 10, 2: 300 + n})
            for n in range(120)
        ),
        *more,
    ]


def test_a_partition_that_stands_while_others_move_is_a_stall_since_it_moved_last(tmp_path):
    written(tmp_path, *stall_log())
    (row,) = findings(tmp_path, "stall")
    assert (row["topic"], row["partition"], row["offset"]) == ("t", 1, 290)
    assert "stands at 290 since 2026-11-18T11:07:09.000Z" in row["detail"]
    assert "owned by worker-7 (h)" in row["detail"]
    assert row["clients"] == [{"client_id": "worker-7", "client_host": "/h", "topics": None}]
    assert findings(tmp_path, "stall", stall_ms=3 * 60_000) == []


def test_a_stall_stays_when_its_owner_is_gone_and_names_who_owned_the_partition(tmp_path):
    next_owner = member("n", held={"t": [0, 1, 2]}, clientId="worker-8")
    at_ms = START + 150_000
    written(tmp_path, *stall_log(life(at_ms, 2, next_owner), life(at_ms + 10, 3)))
    (row,) = findings(tmp_path, "stall")
    assert "owned by worker-7 (h), worker-8 (h)" in row["detail"]
    assert [client["client_id"] for client in row["clients"]] == ["worker-7", "worker-8"]


@pytest.mark.parametrize(
    ("name", "appends"),
    [
        ("nobody owns the partition", stall_log(owner=(0, 2))),
        ("the partition hardly ever moved", stall_log(count=10)),
        (
            "all partitions stand",
            [
                life(START, 1, member("m", held={"t": [0, 1, 2]})),
                *steady(30),
                commit(START + HOUR, {3: 1}),
            ],
        ),
        (
            "the partition often pauses so long",
            [
                life(START, 1, member("m", held={"t": [0, 1]})),
                *(commit(START + n * 1000, {0: n, 1: n // 100 * 10}) for n in range(3000)),
            ],
        ),
    ],
)
def test_an_idle_partition_is_no_stall(name, appends, tmp_path):
    written(tmp_path, *appends)
    assert findings(tmp_path, "stall") == [], name


def test_offsets_in_open_transactions_are_those_that_kafka_holds_back():
    expected = {
        (group["group_id"], producer["producer_id"]): {
            (offset["topic"], offset["partition"]) for offset in producer["offsets"]
        }
        for group in json_of("transactions", "groups.json")["groups"]
        for producer in group["pending_transactional_offsets"]
    }
    rows = findings(log("transactions"), "open_transaction", open_ms=0)
    assert len(rows) == len(expected) > 0
    for row in rows:
        producer = int(row["detail"].split()[1])
        places = expected[row["group_id"], producer]
        assert all(f"{topic}-{partition}" in row["detail"] for topic, partition in places)


def open_log(folder, *more):
    written(folder, life(START, 1, member("m")))
    file = folder / "__consumer_offsets-0" / f"{0:020}.log"
    parts = [
        batch(
            1, commit(START + 1000, {0: 7}), producer_id=4000, producer_epoch=9, transactional=True
        ),
        batch(2, commit(START + 1001, {0: 7}, b"h"), producer_id=4000, transactional=True),
        *more,
    ]
    file.write_bytes(file.read_bytes() + b"".join(parts))
    return folder


def test_groups_shows_what_a_transaction_holds_beside_kafkas_table(tmp_path):
    open_log(tmp_path)
    result = coterie_ok("groups", tmp_path, "--describe", "--group", "h")
    assert "PENDING-OFFSET" not in result.stdout
    line = next(line for line in result.stderr.splitlines() if line.startswith("h "))
    assert line.split() == ["h", "4000", "2026-11-18T11:06:41.001Z", "t", "0", "-", "7"]


def test_metrics_have_the_losses(tmp_path):
    written(tmp_path / "a", *away_for_eight_days({0: 590, 1: 588}))
    text = coterie_ok("metrics", tmp_path / "a").stdout
    skipped = "coterie_consumergroup_skipped_records_total"
    assert f'{skipped}{{consumergroup="g",topic="t"}} {423 + 418}\n' in text
    written(tmp_path / "b", *stall_log())
    text = coterie_ok("metrics", tmp_path / "b").stdout
    assert 'coterie_consumergroup_stalled_partitions{consumergroup="g"} 1\n' in text
    since = "coterie_consumergroup_stall_start_timestamp_seconds"
    place = '{consumergroup="g",topic="t",partition="1"}'
    assert f"{since}{place} {(START + 29_000) // 1000}.000\n" in text
    text = coterie_ok("metrics", open_log(tmp_path / "c"), "--names", "coterie").stdout
    for group in "gh":
        assert f'coterie_consumergroup_open_transactions{{consumergroup="{group}"}} 1\n' in text


@pytest.mark.parametrize("case", ["basic", "default50", "compression-zstd", "connect", "kip848"])
def test_golden_logs_have_no_stall_and_only_skips_after_a_removal_or_by_2_to_the_31(case):
    """The clients of `basic` began anew at 2**31 and 2**40, which no group reads in seconds."""
    for row in findings(log(case), "skip", "stall"):
        assert row["kind"] == "skip"
        if row["offset"] - row["previous_offset"] < 2**30:
            assert "removed at" in row["detail"]
            assert row["topic"] in ("tmp-topic", "gone")  # created again


@pytest.mark.parametrize(
    "name", ["broker-killed", "crash-loop", "reset-while-empty", "static-fight", "two-applications"]
)
def test_golden_incidents_lost_no_records(name):
    assert findings(INCIDENTS / name / "log", *KINDS) == []


@pytest.mark.parametrize("seed", [0])
def test_simulated_hours_of_healthy_groups_have_no_losses(seed, tmp_path):
    """Bursts, nights, restarts, seldom records; `docs/audit.md` has the figures for ten hours."""
    habits = {name: habit for name, habit in HABITS.items() if name != b"polls"}
    healthy_log(tmp_path, 3.2, seed, habits)
    assert findings(tmp_path, *KINDS, "rewind") == []


@pytest.mark.slow
def test_a_log_of_a_million_commits_has_no_losses():
    assert findings(wide(), *KINDS) == []
