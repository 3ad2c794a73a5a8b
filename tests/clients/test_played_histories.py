"""Histories with confluent-kafka (librdkafka), against a broker whose clock follows them."""

import pytest

from coterie import ConfigError, CoterieError
from coterie.histories import (
    AddPartitions,
    Close,
    ConfluentConsumer,
    Crash,
    Cut,
    DeleteTopic,
    FailCommit,
    Failover,
    History,
    Join,
    LoseResponse,
    RollingDeploy,
)
from coterie.server import Broker
from support.histories.mistakes import CATALOGUE, Application

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

ORDERS = {"topics": {"orders": 2}, "minutes": 1}
FOUND_IN = {  # each is found in a run, too
    "commit before processing": History(
        members=1, events=(Crash(at_ms=0, during="processing"),), **ORDERS
    ),
    "no commit when revoked": History(members=1, events=(Join(at_ms=25_000),), **ORDERS),
    "seek to a stale position": History(
        members=1, events=(Join(at_ms=15_000), Close(at_ms=40_000, member=1)), **ORDERS
    ),
}


def played(history, application=Application, **options):
    with Broker(clock="virtual", **options) as broker:
        return history.play(broker, ConfluentConsumer, application)


@pytest.mark.parametrize("name", FOUND_IN)
def test_a_mistake_is_found_with_a_real_client_as_in_a_run(name):
    entry, history = CATALOGUE[name], FOUND_IN[name]
    for mistaken in (history.run(entry.mistaken), played(history, entry.mistaken)):
        assert len(entry.found(mistaken))
    for corrected in (history.run(entry.corrected), played(history, entry.corrected)):
        assert not len(entry.found(corrected))
        assert not corrected.stuck


@pytest.mark.parametrize(
    "event", [Cut(at_ms=20_000, lasts_ms=30_000), AddPartitions(at_ms=59_900, topic="orders")]
)
def test_partitions_without_records_and_commits_have_positions(event):
    history = History(1, topics={"orders": 1}, minutes=1, records_per_minute=0, events=(event,))
    outcome = played(history)
    assert not outcome.stuck
    assert not [note for note in outcome._ledger.notes if note.kind == "failed"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_processed_whatever_happens(protocol):
    events = (
        Failover(at_ms=12_000, load_ms=2_000),
        FailCommit(at_ms=20_000, error="GROUP_AUTHORIZATION_FAILED"),
        LoseResponse(at_ms=25_000, member=1, api="OffsetCommit"),
        RollingDeploy(at_ms=40_000, step_ms=5_000),
    )
    settings = {"group.protocol": protocol}
    outcome = played(History(2, events=events, settings=settings, **ORDERS), kafka="4.1")
    assert not outcome.lost
    assert not outcome.stuck
    assert "GROUP_AUTHORIZATION_FAILED" in str([note.details for note in outcome.errors])
    assert not outcome.skipped
    works = outcome._ledger.works
    assert {place: {work.offset for work in works[place]} for place in works} == {
        ("orders", number): set(range(6)) for number in range(2)
    }


def test_an_event_that_the_client_cannot_take_part_in_is_left_out_by_name():
    deploy = RollingDeploy(at_ms=1_000, assignor="sticky")
    events = (deploy, DeleteTopic(at_ms=2_000, topic="orders"))
    (note,) = played(History(1, events=events, **ORDERS)).skipped
    assert note.details == f"{deploy!r}: librdkafka has no assignor 'sticky'"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"partition.assignment.strategy": "range,sticky"}, "has no assignor 'sticky'"),
        ({"partition.assignment.strategy": ["range", "cooperative-sticky"]}, "does not mix"),
        ({"group.protocol": "consumer"}, "the broker has no consumer groups; give it kafka="),
        ({"max.poll.interval.ms": 10_000}, "wants max.poll.interval.ms of 45000 or more"),
    ],
)
def test_settings_that_the_client_does_not_take_are_refused_by_name(settings, reason):
    with pytest.raises(CoterieError, match=f"the client cannot play this history: .*{reason}"):
        played(History(1, settings=settings, **ORDERS))


def test_a_setting_that_librdkafka_does_not_know_is_named():
    with pytest.raises(ConfigError, match=r"librdkafka: .*key\.deserializer"):
        played(History(1, settings={"key.deserializer": "string"}, **ORDERS))


def test_the_broker_must_be_new_and_have_a_virtual_clock():
    history = History(1, **ORDERS)
    with pytest.raises(CoterieError, match="has a topic 'orders' already"):
        played(history, topics={"orders": 2})
    with Broker() as broker, pytest.raises(CoterieError, match="clock='virtual'"):
        history.play(broker, ConfluentConsumer, Application)


def test_an_application_that_writes_is_refused():
    entry = CATALOGUE["exactly once without fencing"]
    with pytest.raises(CoterieError, match="a play has no producer"):
        played(History(1, outputs={"bills": 1}, **ORDERS), entry.corrected)
