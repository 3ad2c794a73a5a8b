"""Which fetch session gives way when there are 1000: ``FetchSessionCacheShard.tryEvict``.

The time limits of Kafka are "more than two minutes".
"""

from itertools import count

import pytest

from coterie.server.services.fetch_sessions import FetchSessions, RequestedPartition

MOST, OLD_MS = 1000, 120_001
START_MS = 1_760_000_000_123


class Broker:
    """The sessions of a broker; ``now_ms`` counts from when the first one was made."""

    def __init__(self):
        self.now_ms, numbers = 0, count(1)
        self.sessions = FetchSessions(lambda bits: next(numbers), lambda: START_MS + self.now_ms)

    def make(self, size):
        partitions = [RequestedPartition(("t", n), "t", "", n, 0, 1, -1, -1) for n in range(size)]
        return self.sessions.make(partitions, False)

    def use_all(self, now_ms):
        self.now_ms = now_ms
        for session_id in range(1, MOST + 1):
            self.sessions.use(self.sessions._known[session_id])

    def has(self, session_id):
        return session_id in self.sessions._known


@pytest.fixture
def full():
    """A thousand sessions of the time 0, with 3 partitions each, but the last with 2."""
    broker = Broker()
    made = [broker.make(3) for _ in range(MOST - 1)] + [broker.make(2)]
    assert made == list(range(1, MOST + 1))
    return broker


def test_a_session_without_a_fetch_for_over_two_minutes_gives_way_to_any(full):
    full.use_all(10)
    full.now_ms = 10 + OLD_MS - 1
    assert full.make(9) == 0
    full.now_ms += 1
    assert full.make(1) == MOST + 1
    assert len(full.sessions) == MOST


def test_of_several_sessions_the_one_without_a_fetch_for_the_longest_time_gives_way(full):
    full.use_all(1)
    for session_id, now_ms in ((7, 5), (400, 3), (8, 9)):
        full.now_ms = now_ms
        full.sessions.use(full.sessions._known[session_id])
    for session_id in {*range(1, MOST + 1)} - {7, 8, 400}:
        full.now_ms = 20
        full.sessions.use(full.sessions._known[session_id])
    full.now_ms = 3 + OLD_MS
    assert full.make(1) == MOST + 1
    assert [full.has(session_id) for session_id in (1, 7, 8, 400, MOST)] == [1, 1, 1, 0, 1]


def test_of_the_smallest_old_sessions_the_one_with_the_lowest_id_gives_way():
    """Source: ``compareTo`` of EvictableKey."""
    broker = Broker()
    for number in range(MOST):
        broker.make(2 if number in (4, 500, 700) else 3)
    broker.use_all(OLD_MS)
    assert broker.make(9) == MOST + 1
    assert [broker.has(session_id) for session_id in (1, 5, 501, 701, MOST)] == [1, 0, 1, 1, 1]


def test_an_old_session_gives_way_to_one_with_more_partitions(full):
    full.use_all(OLD_MS)
    assert full.make(3) == MOST + 1
    assert not full.has(MOST)
    assert len(full.sessions) == MOST


def test_an_old_session_stays_if_the_new_one_has_not_more_partitions(full):
    full.use_all(OLD_MS)
    assert full.make(2) == full.make(1) == 0
    assert full.has(MOST)


def test_a_session_is_old_when_a_fetch_used_it_over_two_minutes_after_it_was_made(full):
    full.use_all(OLD_MS - 1)
    full.now_ms = OLD_MS + 1
    assert full.make(9) == 0
    full.use_all(OLD_MS)
    assert full.make(9) == MOST + 1


@pytest.mark.parametrize(("epoch", "following"), [(1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)])
def test_the_epoch_of_a_session_goes_on_from_1_after_the_largest(epoch, following):
    """Source: ``FetchMetadata.nextEpoch``."""
    broker = Broker()
    session_id = broker.make(1)
    session = broker.sessions.find(session_id, 1, False)
    session.epoch = epoch
    broker.sessions.use(session)
    assert broker.sessions.find(session_id, following, False) is session
