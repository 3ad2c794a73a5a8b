"""Timers armed anew and timers that fire, beside Kafka's wheel and what Python offers.

All are armed over a minute. ``rearm`` gives each a new deadline, in order of arming or all over
the memory; ``fire`` moves the clock past the last one. One core each, equal answers.
"""

import gc

import numpy as np
import pytest

import kafka_peer
from timer_peers import PEERS

SIZES = {
    "smoke": [1000],
    "short": [1_000_000],
    "full": [1000, 10_000, 100_000, 1_000_000, 10_000_000],
}
SPAN_MS = 60_000
SHUFFLE = 618_033_989  # prime to every power of ten: a walk all over the timers
SLOW_FROM = 1_000_000  # above it, peers that take a microsecond and more a timer are left out


def deadlines_of(size, salt):
    """The same in Timers.java: spread over a minute, equal for both."""
    index = np.arange(size, dtype=np.uint64) + np.uint64(salt)
    spread = (index * np.uint64(2_654_435_761) & np.uint64(0xFFFFFFFF)) % np.uint64(SPAN_MS)
    return spread.astype(np.int64) + 1


def order_of(size, shuffled):
    return np.arange(size, dtype=np.int64) * SHUFFLE % size if shuffled else None


def expected_rearmed(size):
    due = deadlines_of(size, 7) <= SPAN_MS // 2
    return int(due.sum()), int(np.flatnonzero(due).sum())


def rounds_of(size, peer):
    """As many as give a steady median in some seconds."""
    if peer != "coterie" and size >= 1_000_000:
        return 3
    return 5 if size > 1_000_000 else 15


def peers():
    return [*PEERS, "kafka"]


def skip_what_is_too_slow(peer, size):
    if size > SLOW_FROM and peer not in ("coterie", "kafka"):
        pytest.skip(f"{peer} at {size} timers: minutes")
    package = getattr(PEERS.get(peer), "package", None)
    if package in ("sortedcontainers", "uvloop"):
        pytest.importorskip(package)


@pytest.mark.parametrize("order", ["in order", "shuffled"])
@pytest.mark.parametrize("peer", peers())
@pytest.mark.benchmark(group="timers: re-arm")
def test_rearm(benchmark, note, sizes, peer, size, order):
    skip_what_is_too_slow(peer, size)
    shuffled = order == "shuffled"
    rounds = 1 if sizes == "smoke" else rounds_of(size, peer)
    if peer == "kafka":
        work = "rearm-shuffled" if shuffled else "rearm"
        warm = 1 if sizes == "smoke" or size > SLOW_FROM else 5
        answer = tuple(kafka_peer.measure(benchmark, work, size, warm=warm, rounds=rounds))
    else:
        answer = rearm(benchmark, PEERS[peer], size, order_of(size, shuffled), rounds)
    assert answer == expected_rearmed(size)
    name = "rearm, shuffled" if shuffled else "rearm"
    note(name, peer, size, package=getattr(PEERS.get(peer), "package", None), unit="timer")


def rearm(benchmark, peer, size, order, rounds):
    first, later = deadlines_of(size, 0), SPAN_MS + deadlines_of(size, 7)
    later = later if order is None else later[order]
    made = []

    def setup():
        close(made)
        made[:] = [peer()]
        made[0].arm(first)
        made[0].prepare(order)
        gc.collect()

    benchmark.pedantic(lambda: made[0].rearm(later), setup=setup, rounds=rounds)
    size = len(later)  # where the clock is the machine's there is nothing to compare
    fires = getattr(peer, "fires", True)
    answer = made[0].advance(SPAN_MS + SPAN_MS // 2) if fires else expected_rearmed(size)
    close(made)
    return answer


def close(made):
    """A loop that is not closed warns."""
    for peer in made:
        getattr(peer, "close", bool)()


@pytest.mark.parametrize("peer", peers())
@pytest.mark.benchmark(group="timers: fire")
def test_fire(benchmark, note, sizes, peer, size):
    skip_what_is_too_slow(peer, size)
    if not getattr(PEERS.get(peer), "fires", True):
        pytest.skip(f"{peer}: its clock cannot be set")
    rounds = 1 if sizes == "smoke" else rounds_of(size, peer)
    if peer == "kafka":
        warm = 1 if sizes == "smoke" or size > SLOW_FROM else 5
        answer = tuple(kafka_peer.measure(benchmark, "fire", size, warm=warm, rounds=rounds))
    else:
        answer = fire(benchmark, PEERS[peer], deadlines_of(size, 0), rounds)
    assert answer == (size, size * (size - 1) // 2)
    note("fire", peer, size, package=getattr(PEERS.get(peer), "package", None), unit="timer")


def fire(benchmark, peer, deadlines, rounds):
    made = []

    def setup():
        close(made)
        made[:] = [peer()]
        made[0].arm(deadlines)
        gc.collect()

    answer = benchmark.pedantic(lambda: made[0].advance(SPAN_MS), setup=setup, rounds=rounds)
    close(made)
    return answer
