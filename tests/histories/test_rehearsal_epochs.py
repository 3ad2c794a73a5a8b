"""Histories of groups of the consumer protocol, compared with logs of real brokers."""

import json
import random

import pytest

from coterie.errors import ArgumentError
from coterie.histories.rehearsal.history import LEAD_MS, LoggedHistory, read_history
from coterie.histories.rehearsal.result import rehearse
from coterie.histories.rehearsal.variants import read_variant, release_of
from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN
from support.histories.rehearsed import INCIDENTS, histories_of, played_into

PROTOCOLS, KIP848 = INCIDENTS / "protocols", GOLDEN / "logs" / "kip848"
SESSION = "group.consumer.session.timeout.ms"


def history_of(group):
    (found,) = histories_of(PROTOCOLS, group)
    return found


def test_the_epochs_of_real_logs_come_out_again():
    """All with the same members; owners differ where a broker's hash map breaks ties."""
    groups, owners = 0, 0
    for folder in (PROTOCOLS, KIP848):
        for history in histories_of(folder):
            if release_of(history) == "4.1":
                (row,) = rehearse(history, [], kafka="4.1", plays=2)
                assert row["same_members"] == row["records_in_log"], history.group
                assert row["rebalances_most"] == row["in_log"], history.group
                assert row["refused"] == []
                groups += 1
                owners += row["same_owners"] == row["records_in_log"]
    assert groups >= 12
    assert owners >= 0.75 * groups


def test_a_group_moves_to_the_consumer_protocol_and_back_as_in_its_log():
    starts = [op for op in history_of("moved").ops if op["op"] == "start"]
    spoken = {op["consumer"]: op["config"].get("group.protocol", "classic") for op in starts}
    classic, newer = ("app-1", "app-2", "app-5", "app-6"), ("app-3", "app-4")
    assert spoken == dict.fromkeys(classic, "classic") | dict.fromkeys(newer, "consumer")


def test_a_static_member_that_does_not_come_back_shows_the_session_of_the_broker():
    history = history_of("vault")
    assert 5_500 <= history.brokers[SESSION] <= 6_500  # its README says 6 s
    restarts = [op["op"] for op in history.ops if op.get("consumer") == "s-1"]
    assert restarts == ["start", "close"] * 3


def test_both_ways_are_variants_of_a_group_of_the_consumer_protocol():
    variants = [read_variant(text, "4.1") for text in ("protocol=classic", "static=true")]
    rows = rehearse(history_of("plain"), variants, kafka="4.1", plays=1)
    assert [row["protocol"] for row in rows] == ["consumer", "classic", "consumer"]
    assert all(row["refused"] == [] for row in rows)


@pytest.mark.parametrize("text", ["kafka=3.9", "session.timeout.ms=10000"])
def test_what_consumers_of_the_protocol_do_not_have_is_refused(text):
    with pytest.raises(ArgumentError, match=r"protocol=c(lassic|onsumer)"):
        rehearse(history_of("plain"), [read_variant(text, "4.1")], kafka="4.1", plays=1)


def member(**changed):
    fields = dict.fromkeys(("group_instance_id", "session_timeout_ms", "server_assignor"))
    fields |= {"member_id": "m", "client_id": "c", "protocol": "consumer", "topics": ["orders"]}
    fields |= {"rebalance_timeout_ms": 60_000}
    return fields | {"assignment": [{"topic": "orders", "partitions": [0]}]} | changed


def epoch(at, number, *members, event="epoch", **fields):
    row = {"event": event, "timestamp": at, "joined_at": None, "generation": number}
    row |= {"protocol": "consumer", "causes": [], "departures": [], "members": list(members)}
    return row | fields


def test_an_epoch_is_at_the_time_of_what_brought_it():
    gone = [{"member_id": "n", "how": "eviction"}]
    both = member(), member(member_id="n", client_id="d", server_assignor="range")
    history = read_history(
        "g",
        [
            epoch(0, 1, *both[:1]),
            epoch(90_000, 2, *both),
            epoch(200_000, 3, member(), departures=gone),
        ],
    )
    first, second, crash = history.ops
    assert (second["at"], second["slack_ms"]) == (LEAD_MS + 90_000, 0)
    assert second["config"]["group.remote.assignor"] == "range"
    assert crash["op"] == "crash"
    assert crash["at"] == pytest.approx(LEAD_MS + 200_000 - 45_000, abs=100)  # Kafka's session
    assert first["config"]["max.poll.interval.ms"] == 60_000


def test_an_id_without_a_name_gets_one_that_its_member_subscribes_to():
    owned = [{"topic": "Zm9vYmFyYmF6cXV4cXV1eA", "partitions": [0, 1, 2]}]
    history = read_history("g", [epoch(0, 1, member(assignment=owned, topics=["audit"]))])
    assert history.topics == {"audit": 3}
    assert history.generations[0].owners == {"c": {"audit": [0, 1, 2]}}
    assert history.unknown == {"topics: which name an id has": 1}


def test_a_log_of_the_consumer_protocol_is_played_under_a_release_that_has_it(tmp_path):
    ask = "rehearse", PROTOCOLS, "--group", "vault", "--plays", "1", "--format", "json"
    file = tmp_path / "vault.json"
    done = coterie_ok(*ask, "--to", "kafka=4.4", "--scenario-out", file)
    assert [row["kafka"] for row in json.loads(done.stdout)] == ["4.1", "4.4"]
    again = coterie_ok("rehearse", file, *ask[4:], "--to", "kafka=4.4")
    assert again.stdout == done.stdout
    wrong = coterie(*ask, "--kafka", "3.9")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "has no consumer protocol" in wrong.stderr


def drawn(seed):
    """A history of members that start, close, die, stop polling, come back and change topics."""
    choose, at, live, ops = random.Random(seed), 0, {}, []
    topics = {"orders": choose.randint(1, 9), "audit": choose.randint(1, 4)}
    while len(ops) < 40:
        at += choose.choice([50, 3_000, 20_000, 70_000, 200_000])
        kind = choose.choice(["start", "start", "close", "crash", "pause", "subscribe", "grow"])
        op = {"at": at, "op": kind, "after": 0, "slack_ms": 0}
        some = dict.fromkeys(choose.sample(sorted(topics), choose.randint(1, 2)), 1)
        if kind == "start" and len(live) < 6:
            name = choose.choice([f"c{len(ops)}", "s1", "s2"])
            if name in live:
                continue
            config = {"session.timeout.ms": 45_000, "max.poll.interval.ms": 60_000}
            config |= {"client.id": name, "member.id": f"{len(ops):022}"}
            config |= {"partition.assignment.strategy": "range", "group.protocol": "consumer"}
            config |= {"group.instance.id": name} if name[0] == "s" else {}
            live[name] = at
            ops.append({**op, "consumer": name, "subscription": some, "config": config})
        elif kind == "grow":
            if choose.random() < 0.3:
                ops.append({**op, "op": "add_partitions", "topic": "orders", "count": 1})
        elif kind != "start" and live:
            name = choose.choice(sorted(live))
            if kind == "subscribe":
                ops.append({**op, "consumer": name, "subscription": some})
            elif at - live.pop(name) > 1_000:
                ops.append({**op, "consumer": name})
            else:
                live[name] = at
    return LoggedHistory("g", 1_700_000_000_000, topics, ops=ops)


def test_the_history_of_a_play_is_read_from_its_log_and_comes_out_again(tmp_path):
    """A model of known truth: what the play did is what its log says, and most of it is repeated.

    Not all: a member that dies may be played as one that closed, and a target that another epoch
    overtakes is computed or not, as heartbeats fall.
    """
    records = members = owners = late = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        truth = played_into(folder, drawn(seed), brokers={"coterie.behaviour": "4.1"})
        (history,) = histories_of(folder)
        assert [(one.generation, one.owners) for one in history.generations] == [
            (one.generation, one.owners) for one in truth.generations
        ]
        late += sum(op["op"] == "pause" for op in history.ops)
        (row,) = rehearse(history, [], kafka="4.1", plays=2)
        records += row["records_in_log"]
        members += row["same_members"]
        owners += row["same_owners"]
    assert records > 150
    assert members >= 0.97 * records
    assert owners >= 0.9 * records
    assert late  # members that did not give up partitions: they did not poll
