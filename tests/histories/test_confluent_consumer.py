"""The calls of ConfluentConsumer to librdkafka's consumer, in whose place a stand-in records them.

The stand-in has the methods and errors of confluent_kafka.Consumer, as far as they are used.
"""

import sys
from types import ModuleType
from typing import NamedTuple

import pytest

from coterie import ConfigError, CoterieError, Error, OffsetAndMetadata
from coterie.histories import ConfluentConsumer
from coterie.histories.confluent import QUICK
from coterie.testing import CommitFailedError, ConsumerRecord, KafkaError, KafkaTimeoutError

FIRST, SECOND = ("t", 0), ("t", 1)
NO_OFFSET, TIMED_OUT, ASSIGNMENT_LOST, INVALID = -168, -185, -142, -186


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int = -1001
    error: object = None


class Failure:
    """An error of librdkafka: below 0 its own, else the broker's."""

    _NO_OFFSET, _TIMED_OUT, _ASSIGNMENT_LOST = NO_OFFSET, TIMED_OUT, ASSIGNMENT_LOST

    def __init__(self, code, fatal=False):
        self._code, self._fatal = code, fatal

    def code(self):
        return self._code

    def fatal(self):
        return self._fatal

    def str(self):
        return f"failure {self._code}"

    __str__ = str


class Raised(Exception):
    """As confluent_kafka.KafkaException."""


class Message:
    def __init__(self, offset=0, error=None, key=b"k", value=b"v"):
        self._offset, self._error, self._key, self._value = offset, error, key, value

    topic = staticmethod(lambda: "t")
    partition = staticmethod(lambda: 1)
    timestamp = staticmethod(lambda: (1, 77))
    headers = staticmethod(lambda: [("h", b"1")])

    def offset(self):
        return self._offset

    def error(self):
        return self._error

    def key(self):
        return self._key

    def value(self):
        return self._value


class Real:
    """Writes down its calls; gives what ``answers`` has for a method, or raises it."""

    last = None

    def __init__(self, settings):
        if "wrong" in settings:
            raise Raised(Failure(INVALID))
        self.settings, self.calls, self.answers = settings, [], {}
        Real.last = self

    def __getattr__(self, method):
        def call(*args, **named):
            self.calls.append((method, *args, *([named] if named else [])))
            answers = self.answers.get(method)
            answer = answers.pop(0) if answers else None
            if isinstance(answer, Failure):
                raise Raised(answer)
            return answer

        return call

    def take(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def make(monkeypatch):
    library = ModuleType("confluent_kafka")
    library.Consumer, library.KafkaException, library.KafkaError = Real, Raised, Failure
    library.TopicPartition = Place
    monkeypatch.setitem(sys.modules, "confluent_kafka", library)

    def made(**settings):
        client = ConfluentConsumer({name.replace("_", "."): of for name, of in settings.items()})
        return client, Real.last

    return made


def test_settings_are_handed_on_but_for_those_that_librdkafka_does_not_know(make):
    _, real = make(group_id="g", max_poll_records=3, default_api_timeout_ms=1,
                   request_timeout_ms=2, retry_backoff_max_ms=3, heartbeat_interval_ms=3000,
                   statistics_interval_ms=9)  # fmt: skip
    real.settings.pop("on_commit")
    assert real.settings == QUICK | {
        "group.id": "g",
        "partition.assignment.strategy": "range",
        "heartbeat.interval.ms": 20,
    }
    _, real = make(group_id="g", group_protocol="consumer")
    real.settings.pop("on_commit")
    assert real.settings == QUICK | {"group.id": "g", "group.protocol": "consumer"}
    with pytest.raises(ConfigError, match="librdkafka: failure -186"):
        make(wrong=1)


def test_without_the_library_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(CoterieError, match="confluent"):
        ConfluentConsumer({})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, None),
        ({"partition.assignment.strategy": "range,roundrobin"}, None),
        ({"partition.assignment.strategy": ["cooperative-sticky"]}, None),
        ({"partition.assignment.strategy": "range,sticky"}, "has no assignor 'sticky'"),
        ({"partition.assignment.strategy": ["range", "cooperative-sticky"]}, "does not mix"),
        ({"max.poll.interval.ms": 45_000}, None),
        ({"max.poll.interval.ms": "44999"}, "of 45000 or more, not 44999"),
        ({"session.timeout.ms": 300_000}, None),
        ({"session.timeout.ms": 300_001}, "of 300001 or more, not 300000"),
        ({"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}, None),
    ],
)
def test_what_librdkafka_does_not_take_is_said_before(settings, reason):
    said = ConfluentConsumer.refuses(settings)
    assert said is None if reason is None else reason in said


class Listener:
    def __init__(self, client, acts=lambda client: None):
        self.client, self.acts, self.calls = client, acts, []

    def on_partitions_assigned(self, places):
        self.calls.append(("assigned", places))
        self.acts(self.client)

    def on_partitions_revoked(self, places):
        self.calls.append(("revoked", places))

    def on_partitions_lost(self, places):
        self.calls.append(("lost", places))


@pytest.mark.parametrize(
    ("settings", "assigns"),
    [
        ({}, "assign"),
        ({"partition_assignment_strategy": "range,roundrobin"}, "assign"),
        ({"partition_assignment_strategy": ["cooperative-sticky"]}, "incremental_assign"),
        ({"group_protocol": "consumer"}, "incremental_assign"),
    ],
)
def test_what_a_listener_seeks_and_pauses_counts_once_the_client_has_the_partitions(
    make, settings, assigns
):
    client, real = make(**settings)
    listener = Listener(client, lambda it: (it.seek(SECOND, 7), it.pause([FIRST])))
    client.subscribe(("t",), listener)
    ((_, topics, calls),) = real.take()
    assert topics == ["t"]
    calls["on_assign"](real, [Place(*SECOND), Place(*FIRST)])
    assert listener.calls == [("assigned", [FIRST, SECOND])]
    assert real.take() == [
        (assigns, [Place(*FIRST), Place(*SECOND, 7)]),
        ("pause", [Place(*FIRST)]),
    ]
    client.seek(SECOND, 9)  # from now on at once
    client.pause([FIRST])
    client.resume([SECOND])
    assert real.take() == [
        ("seek", Place(*SECOND, 9)), ("pause", [Place(*FIRST)]), ("resume", [Place(*SECOND)]),
    ]  # fmt: skip
    listener.acts = lambda it: None
    calls["on_assign"](real, [Place(*FIRST)])
    assert real.take() == [(assigns, [Place(*FIRST)])]
    calls["on_revoke"](real, [Place(*SECOND), Place(*FIRST)])
    calls["on_lost"](real, [Place(*FIRST)])
    assert listener.calls[2:] == [("revoked", [FIRST, SECOND]), ("lost", [FIRST])]


def test_what_a_listener_raises_comes_after_the_client_has_the_partitions(make):
    client, real = make()
    listener = Listener(client, lambda it: 1 / 0)
    client.subscribe(["t"], listener)
    ((_, _, calls),) = real.take()
    with pytest.raises(ZeroDivisionError):
        calls["on_assign"](real, [Place(*FIRST)])
    assert real.take() == [("assign", [Place(*FIRST)])]


def test_a_poll_waits_for_the_first_record_only_and_takes_no_more_than_it_may(make):
    client, real = make(max_poll_records=2)
    real.answers["poll"] = [Message(4), Message(5, key=None, value=None), Message(6)]
    assert client.poll(1500) == [
        ConsumerRecord("t", 1, 4, 77, "k", "v", (("h", b"1"),)),
        ConsumerRecord("t", 1, 5, 77, None, None, (("h", b"1"),)),
    ]  # fmt: skip
    assert real.take() == [("poll", 1.5), ("poll", 0)]
    assert [record.offset for record in client.poll(20)] == [6]
    assert real.take() == [("poll", 0.02), ("poll", 0)]
    client, real = make()
    real.answers["poll"] = [Message(n) for n in range(501)]
    assert len(client.poll(20)) == 500
    real.take()


def test_an_error_of_a_poll_is_passed_over_unless_it_is_fatal(make):
    client, real = make()
    real.answers["poll"] = [Message(error=Failure(INVALID)), Message(4)]
    assert [record.offset for record in client.poll(20)] == [4]
    assert real.take() == [("poll", 0.02), ("poll", 0.02), ("poll", 0)]
    real.answers["poll"] = [Message(error=Failure(INVALID, fatal=True))]
    with pytest.raises(KafkaError, match="failure -186"):
        client.poll(20)


@pytest.mark.parametrize(("policy", "begin"), [("earliest", 3), ("latest", 9)])
def test_a_position_is_the_clients_or_the_committed_one_or_where_the_policy_begins(
    make, policy, begin
):
    client, real = make(auto_offset_reset=policy)
    real.answers["position"] = [[Place(*FIRST, 0)]]
    assert client.position(FIRST) == 0
    assert real.take() == [("position", [Place(*FIRST)])]
    real.answers["position"] = [[Place(*FIRST)]] * 3
    real.answers["committed"] = [[Place(*FIRST, 5)], [Place(*FIRST)], [Place(*FIRST)]]
    assert client.position(FIRST) == 5
    assert real.take() == [("position", [Place(*FIRST)]), ("committed", [Place(*FIRST)], 1.0)]
    real.answers["get_watermark_offsets"] = [(3, 9), None]
    assert client.position(FIRST) == begin
    assert real.take()[-1] == ("get_watermark_offsets", Place(*FIRST), 1.0)
    assert client.position(FIRST) is None


def test_committed_offsets_are_those_that_there_are(make):
    client, real = make()
    real.answers["committed"] = [[Place(*FIRST, 0), Place(*SECOND)]]
    assert client.committed([FIRST, SECOND]) == {FIRST: OffsetAndMetadata(0), SECOND: None}
    assert real.take() == [("committed", [Place(*FIRST), Place(*SECOND)], 1.0)]


def test_a_commit_names_its_offsets_and_waits(make):
    client, real = make()
    client.commit({SECOND: OffsetAndMetadata(7)})
    client.commit(None)
    client.commit({})
    assert real.take() == [
        ("commit", {"asynchronous": False, "offsets": [Place(*SECOND, 7)]}),
        ("commit", {"asynchronous": False}),
    ]
    real.answers["commit"] = [[Place(*FIRST, 1), Place(*SECOND, 2, Failure(25))]]
    with pytest.raises(CommitFailedError):
        client.commit(None)
    real.answers["commit"] = [Failure(NO_OFFSET)]
    client.commit(None)  # there is nothing to commit


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (TIMED_OUT, KafkaTimeoutError),
        (ASSIGNMENT_LOST, CommitFailedError),
        (int(Error.ILLEGAL_GENERATION), CommitFailedError),
        (int(Error.UNKNOWN_MEMBER_ID), CommitFailedError),
        (int(Error.STALE_MEMBER_EPOCH), CommitFailedError),
        (INVALID, KafkaError),
        (int(Error.OFFSET_METADATA_TOO_LARGE), KafkaError),
    ],
)
def test_an_error_of_librdkafka_is_raised_as_kafkas_client_does(make, code, kind):
    client, real = make()
    real.answers["commit"] = [Failure(code)]
    with pytest.raises(KafkaError) as raised:
        client.commit(None)
    assert type(raised.value) is kind
    assert raised.value.error == (Error(code) if kind is KafkaError and code > 0 else None)


def test_callbacks_of_asynchronous_commits_come_in_order_with_their_errors(make):
    client, real = make()
    on_commit, told = real.settings["on_commit"], []
    on_commit(None, [])  # it has committed by itself
    for name in "abc":
        client.commit_async(None, lambda error, name=name: told.append((name, type(error))))
    assert real.take() == [("commit", {"asynchronous": True})] * 3
    assert told == []
    on_commit(None, [Place(*FIRST, 5)])
    on_commit(Failure(TIMED_OUT), [])
    on_commit(None, [Place(*FIRST, 5), Place(*SECOND, 6, Failure(25))])
    on_commit(None, [])
    none = type(None)
    assert told == [("a", none), ("b", KafkaTimeoutError), ("c", CommitFailedError)]
    client.commit_async({}, lambda error: told.append(error))  # nothing to commit: at once
    assert told[3:] == [None]


def test_close_closes(make):
    client, real = make()
    client.close()
    assert real.take() == [("close",)]
