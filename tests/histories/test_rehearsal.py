"""A group's history, played again: held to logs of real brokers, and to what a variant must do."""

import csv
import dataclasses
import json
import re
import shlex
from itertools import pairwise

import pytest

from coterie.errors import ArgumentError, CoterieError
from coterie.histories.rehearsal.history import (
    HEARTBEAT_MS,
    LEAD_MS,
    STEP_MS,
    LoggedHistory,
    read_history,
)
from coterie.histories.rehearsal.play import Play
from coterie.histories.rehearsal.result import rehearse
from coterie.histories.rehearsal.variants import read_variant
from coterie.insight.groups.departures import ways_of
from support.commandline import coterie, coterie_ok
from support.doc_pages import blocks
from support.golden_data import GOLDEN
from support.histories.rehearsed import INCIDENTS, histories_of, history_of, op, start

LEAST = 10  # rebalances of a group whose play has to fit its log


def test_the_rebalances_and_owners_of_real_logs_come_out_again():
    """Nine of ten groups with ten rebalances; the others differ by what the log does not say."""
    folders = [GOLDEN / "logs" / "basic", *sorted(INCIDENTS.glob("*/log"))]
    members, owners, groups = 0, 0, 0
    for folder in folders:
        for history in histories_of(folder):
            (row,) = rehearse(history, [], plays=2)
            if row["in_log"] >= LEAST:
                groups += 1
                members += row["same_members"] == row["records_in_log"]
                owners += row["same_owners"] == row["records_in_log"]
    assert groups >= 12
    assert members >= 0.9 * groups
    assert owners >= 0.8 * groups  # librdkafka's assignors break ties in another order


@pytest.mark.parametrize(
    ("log", "group"),
    [
        ("incidents/clock-back/log", "payments"),  # a broker's clock was set back
        ("incidents/two-applications/log", "shared"),  # a subscription changed, nothing else
        ("incidents/removals/log", "live-a"),  # it has no topics for a while
        ("incidents/removals/log", "phoenix"),  # it was deleted, and came again
        ("incidents/skipped-records-4/log", "away-latest"),  # an empty group was written
        ("logs/old-formats", "old4-g1"),  # its subscriptions cannot be read
        ("logs/old-formats", "old4-back"),  # deleted and made again within 2 ms
        ("logs/basic", "grp-kp-range"),  # a topic got its first partitions later
    ],
)
def test_what_is_rare_in_a_log_comes_out_again(log, group):
    (history,) = histories_of(GOLDEN / log, group)
    (row,) = rehearse(history, [], plays=1)
    assert row["same_members"] == row["records_in_log"]
    assert row["rebalances_most"] == row["in_log"]
    assert row["refused"] == []


def history(*ops):
    return LoggedHistory("g", 0, {"orders": 4}, ops=sorted(ops, key=lambda one: one["at"]))


def played(of, variant="session.timeout.ms=10000", seed=0):
    chosen = read_variant(variant)
    changed = chosen.of(of)
    return Play(changed, brokers=chosen.first_brokers, seed=seed).run()


@pytest.mark.parametrize("timeout_ms", [10_000, 45_000, 200_000])
def test_partitions_of_a_dead_member_have_no_owner_until_its_session_ends(timeout_ms):
    of = history(start("a", 0), start("b", 10), op("crash", "b", 60_000))
    longest_ms = played(of, f"session.timeout.ms={timeout_ms}").longest_unowned_ms
    heartbeat_ms = 3_000  # the last one came so much earlier; the other member rejoins so late
    assert timeout_ms - heartbeat_ms <= longest_ms <= timeout_ms + heartbeat_ms + 100


def test_a_static_member_that_comes_back_in_time_brings_no_rebalance():
    restart = op("close", "b", 60_000), start("b", 62_000)
    of = history(start("a", 0), start("b", 10), *restart)
    assert played(of).rebalances == 3
    assert played(of, "static=true").rebalances == 1


def test_a_member_that_does_not_poll_leaves_after_max_poll_interval():
    of = history(start("a", 0), start("b", 10), op("pause", "b", 60_000))
    ends = [one.at for one in played(of, "max.poll.interval.ms=30000").generations]
    assert len(ends) == 2
    assert 90_000 - 10 <= ends[1] <= 90_000 + 3_100


def test_partitions_of_a_member_that_does_not_poll_have_no_owner_after_it_left():
    both = [start("a", 0), start("b", 10)]
    without, paused = (
        sum(played(history(*both, *more), seed=seed).unowned_ms for seed in range(4))
        for more in ([], [op("pause", "b", 60_000)])
    )
    assert paused - without > 4 * 100  # until the next heartbeat of the other


def test_a_deploy_of_all_at_once_leaves_partitions_unowned_and_a_rest_does_not():
    both = [start("a", 0), start("b", 10)]
    closes = [op("close", "a", 60_000), op("close", "b", 60_010)]
    without = played(history(*both)).unowned_ms
    away_ms = 90_000
    again = [start("a", 60_000 + away_ms), start("b", 60_010 + away_ms)]
    deploy = played(history(*both, *closes, *again))
    assert away_ms <= deploy.longest_unowned_ms <= away_ms + 4_000  # and the first rebalance
    assert deploy.unowned_ms >= without + 4 * away_ms
    day_ms = 86_400_000
    later = [start("a", day_ms), start("b", day_ms + 10)]
    assert played(history(*both, *closes, *later)).longest_unowned_ms < 10_000


def test_a_rebalance_that_does_not_end_lasts_until_the_end_of_the_play():
    hour_ms = 3_600_000
    of = history(start("a", 0), start("b", 10), op("pause", "b", 60_000), start("c", hour_ms))
    late = played(of, "max.poll.interval.ms=2147483647")  # so long it waits for b to join
    assert late.rebalances == 1
    assert late.settling_ms > hour_ms / 2


def test_partitions_that_no_member_subscribes_to_are_not_missed():
    day_ms = 86_400_000
    other = start("b", 10) | {"subscription": {"audit": 1}}
    of = history(start("a", 0), other, op("close", "b", 60_000), start("c", day_ms))
    of.topics["audit"] = 2
    assert played(of).longest_unowned_ms < 10_000


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_died_as_soon_as_it_had_joined_is_evicted(seed):
    late = start("b", 60_000) | {"after": 1, "slack_ms": 3_000}
    of = history(start("a", 0), late, op("crash", "b", 60_010))
    members = [sorted(one.owners) for one in played(of, seed=seed).generations]
    assert members == [["a"], ["a", "b"], ["a"]]


def test_members_that_a_coordinator_has_forgotten_get_ids_of_their_own():
    both = [start(name, at, **{"client.id": "x"}) for name, at in (("a", 0), ("b", 10))]
    stop = {"at": 500, "op": "coordinator_stop", "after": 0, "slack_ms": 0}
    (only,) = played(history(*both, stop)).generations
    assert len(only.owners) == 2


def test_a_skipped_month_changes_nothing_but_the_heartbeats():
    """A month between two restarts, played beside a minute: the same rebalances and gaps."""
    month_ms = 30 * 86_400_000
    results = []
    for pause_ms in (60_000, month_ms):
        again = 100_000 + pause_ms
        restart = op("close", "b", again), start("b", again + 1_000)
        results.append(played(history(start("a", 0), start("b", 10), *restart)))
    near, far = results
    assert near.rebalances == far.rebalances
    assert near.unowned_ms == far.unowned_ms
    assert [one.owners for one in near.generations] == [one.owners for one in far.generations]
    assert far.requests > near.requests + 2 * 0.9 * month_ms / 3_000


def test_a_rolling_deploy_spaces_the_restarts_and_leaves_each_away_as_long():
    names = "abcd"
    starts = [start(name, place) for place, name in enumerate(names)]
    ends = [op("close", name, 60_000 + place) for place, name in enumerate(names)]
    back = [start(name, 65_000 + place) for place, name in enumerate(names)]
    moved = read_variant("deploy=rolling:30s").of(history(*starts, *ends, *back)).ops
    closes = [one["at"] for one in moved if one["op"] == "close"]
    assert [after - before for before, after in pairwise(closes)] == [30_000] * 3
    returns = [one["at"] for one in moved if one["op"] == "start"][4:]
    assert [back - close for close, back in zip(closes, returns, strict=True)] == [5_000] * 4


def test_a_rolling_deploy_ends_no_consumer_before_its_restart():
    names = "abcd"
    ops = [start(name, place) for place, name in enumerate(names)]
    ops += [op("close", name, 60_000 + place) for place, name in enumerate(names)]
    ops += [start(name, 65_000 + place) for place, name in enumerate(names)]
    of = history(*ops, op("close", "d", 100_000))
    assert sorted(played(of, "deploy=rolling:30s").generations[-1].owners) == ["a", "b", "c"]


def test_heartbeats_must_be_shorter_than_the_sessions_of_the_history():
    of, wrong = history(start("a", 0)), read_variant("heartbeat.interval.ms=20000")
    with pytest.raises(ArgumentError, match="which is 10000 for a member of group 'g'"):
        rehearse(of, [wrong], plays=1)


def member(**changed):
    fields = dict.fromkeys(("group_instance_id", "server_assignor"))
    fields |= {"member_id": "m", "client_id": "c", "protocol": "classic"}
    fields |= {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "topics": ["orders"]}
    return fields | {"assignment": [{"topic": "orders", "partitions": [0]}]} | changed


def generation(at, **changed):
    fields = {"event": "generation", "timestamp": at, "joined_at": None, "generation": 1}
    fields["departures"] = []
    return fields | {"protocol": "range", "causes": [], "members": [member(**changed)]}


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": ""},
        {"session_timeout_ms": 0},
        {"session_timeout_ms": 1},
        {"rebalance_timeout_ms": -1},
        {"topics": []},
        {"topics": None, "assignment": []},
        {"assignment": [{"topic": "orders", "partitions": []}]},
    ],
    ids=str,
)
def test_whatever_a_member_says_it_is_played(changed):
    of = read_history("g", [generation(1_000, **changed)])
    (row,) = rehearse(of, [read_variant("protocol=consumer")], plays=1)[:1]
    assert (row["same_members"], row["refused"]) == (1, [])


@pytest.mark.parametrize(
    ("way", "how", "earlier_ms"),
    [
        ("clean close", "close", 0),
        ("eviction", "crash", 10_000),
        ("poll timeout", "pause", 60_000),
        ("poll timeout or eviction", "pause", 60_000),
        (None, "close", 0),
    ],
)
def test_a_departure_is_played_as_its_record_suggests(way, how, earlier_ms):
    members = [member(member_id=name, client_id=name, session_timeout_ms=10_000) for name in "abc"]
    ways = [{"member_id": name, "how": way} for name in "bc" if way]
    first = generation(0) | {"members": members}
    last = generation(600_000) | {"generation": 2, "members": members[:1], "departures": ways}
    of = read_history("g", [first, last])
    ends = [one for one in of.ops if one["op"] != "start"]
    began = LEAD_MS + 600_000 - HEARTBEAT_MS // 2 + STEP_MS
    assert [(one["op"], one["consumer"], one["at"]) for one in ends] == [
        (how, name, began - earlier_ms) for name in "bc"
    ]
    assert bool(of.unknown) == (way is None)


@pytest.mark.parametrize(
    ("cause", "way"),
    [
        ({"what": "left", "detail": None}, "clean close"),
        ({"what": "left", "detail": "consumer poll timeout has expired."}, "poll timeout"),
        ({"what": "evicted", "detail": None}, "eviction"),
        ({"what": "restarted_evicted", "member_id": "new", "detail": "m"}, "eviction"),
        ({"what": "left_or_evicted", "detail": None}, None),
    ],
)
def test_a_brokers_log_says_how_a_member_left(cause, way):
    row = {"causes": [{"member_id": "m"} | cause]}
    assert ways_of(row) == ({"m": way} if way else {})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([generation(None)], "have no timestamps"),
        (
            [generation(1, assignment=[{"topic": "orders", "partitions": [2**31 - 1]}])],
            "partition 2147483647 of topic 'orders'",
        ),
    ],
)
def test_a_history_that_cannot_be_played_is_refused(rows, message):
    with pytest.raises(CoterieError, match=message):
        read_history("g", rows)


def test_another_protocol_and_release_are_played():
    of = history_of("departures", "killed")
    rows = rehearse(of, [read_variant("protocol=consumer"), read_variant("kafka=4.4")], plays=1)
    assert [(row["variant"], row["kafka"], row["protocol"]) for row in rows] == [
        ("as it was", "3.9", "classic"),
        ("protocol=consumer", "4.4", "consumer"),
        ("kafka=4.4", "4.4", "classic"),
    ]
    as_it_was, consumer, _ = rows
    # A broker's session of 45 s: the partitions of killed members wait longer than with 10 s.
    assert consumer["longest_unowned_ms_least"] > as_it_was["longest_unowned_ms_most"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("protocol", "KEY=VALUE"),
        ("protocol=streams", "there are classic and consumer"),
        ("kafka=4.9", "there are 3.9"),
        ("protocol=consumer,kafka=3.9", "no consumer protocol"),
        ("assignor=best", "there are range"),
        ("assignor=range+range", "name each once"),
        ("sesion.timeout.ms=1", "session.timeout.ms"),
        ("session.timeout.ms=soon", "no number of ms"),
        ("session.timeout.ms=9999999999", "session.timeout.ms"),
        ("session.timeout.ms=" + "9" * 5000, "no number of ms"),
        ("deploy=rolling:" + "9" * 5000, "rolling:30s"),
        ("kafka=4.1,kafka=4.4", "given twice"),
        ("protocol=consumer,session.timeout.ms=9", "a setting of the broker"),
        ("protocol=consumer,assignor=sticky", "there are uniform and range"),
        ("group.consumer.migration.policy=never", "must be one of"),
        ("group.consumer.migrationpolicy=disabled", "group.consumer.migration.policy"),
        ("way=quick", "way=rolling:30s or way=there-and-back:30s"),
        ("at=2026-01-31T14:05:00Z", "it needs way="),
        ("way=rolling:30s,at=noon", "at='noon'"),
        ("static=yes", "true and false"),
        ("deploy=fast", "rolling:30s"),
        ("heartbeat.interval.ms=60000", "below"),
    ],
)
def test_a_wrong_variant_is_refused_with_what_there_is(text, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        read_variant(text)


def test_spaces_after_the_commas_of_a_variant_are_no_part_of_it():
    dense, loose = map(read_variant, ("kafka=4.4,static=true", "kafka=4.4, static=true"))
    assert loose == dataclasses.replace(dense, name=loose.name)


def test_a_group_without_a_generation_is_refused():
    with pytest.raises(CoterieError, match="no generation of the classic protocol and no epoch"):
        read_history("g", [])


def test_the_page_shows_what_the_command_prints():
    (block,) = blocks("rehearse.md", "console")
    command, _, shown = block.removeprefix("$ coterie ").partition("\n")
    done = coterie_ok(*shlex.split(command), cwd=GOLDEN.parents[1])
    assert done.stdout.strip("\n") == shown.strip("\n")


def test_a_group_that_cannot_be_played_is_named_and_the_others_are():
    log = GOLDEN / "logs" / "connect"
    done = coterie_ok("rehearse", log, "--group", "connect-*", "--format", "json")
    assert {row["group_id"] for row in json.loads(done.stdout)} == {"connect-snk"}
    assert "'connect-raw' is no consumer group" in done.stderr


def test_csv_has_the_same_as_json():
    ask = "rehearse", INCIDENTS / "loops" / "log", "--group", "steady", "--plays", "1", "--format"
    (row,) = csv.DictReader(coterie_ok(*ask, "csv").stdout.splitlines())
    (same,) = json.loads(coterie_ok(*ask, "json").stdout)
    assert row.keys() == same.keys()
    assert int(row["unowned_ms_most"]) == same["unowned_ms_most"]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), 2, "--group"),
        (("--group", "eager", "--kafka", "4.4,protocol=consumer"), 2, "there are 3.9"),
        (("--group", "eager", "--to", "kafka=2"), 2, "there are 3.9"),
        (("--group", "eager", "--to", "assignor=uniform"), 2, "there are range, roundrobin"),
        (("--group", "eager", "--to", "way=rolling:5s,at=0"), 2, "is not between 2026-11-24"),
        (("--group", "nobody"), 1, "nobody"),
    ],
)
def test_wrong_use_is_one_line(options, status, message):
    done = coterie("rehearse", INCIDENTS / "rolling-restarts" / "log", *options)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
