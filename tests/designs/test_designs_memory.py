"""Memory of a run is that of consumers, partitions and nodes; not of how often they moved."""

import gc
import tracemalloc

import pytest

from coterie.designs import DESIGNS, read_scenario, run
from coterie.designs.costs import Accounts

GAP_MS = 60_000
EARLY, LATE = 50, 200  # rebalances: at first, timeouts of the requests add up


def scenario(rounds):
    """Four consumers of a topic; one is cut off for a session and comes back, again and again."""
    begin = [{"op": "create_topic", "topic": "t", "replicas": [[0]] * 8}]
    begin += [{"op": "start", "consumer": f"c{n}", "subscription": {"t": 1}} for n in range(4)]
    again = [{"op": op, "consumer": "c0"} for op in ("zk_cut", "zk_heal")] * rounds
    moves = [{**op, "at": GAP_MS * at} for at, op in enumerate([*begin, *again], 1)]
    settle = {"op": "settle", "point": 1, "at": GAP_MS * (len(moves) + 1)}
    return read_scenario({"config": {"brokers": [0]}, "events": [*moves, settle]})


def held(monkeypatch, given, design, *, timeline):
    """Bytes that a run holds when an early rebalance begins, and when a late one does."""
    begun, found = 0, {}
    note = Accounts.note

    def noting(self, at_ms, kind, *rest):
        nonlocal begun
        note(self, at_ms, kind, *rest)
        begun += kind == "rebalance_began"
        if begun in (EARLY, LATE) and begun not in found:
            gc.collect()
            found[begun] = tracemalloc.get_traced_memory()[0]

    monkeypatch.setattr(Accounts, "note", noting)
    tracemalloc.start()
    try:
        run(given, design, timeline=timeline)
    finally:
        tracemalloc.stop()
        monkeypatch.undo()
    return found[EARLY], found[LATE]


@pytest.mark.parametrize("design", DESIGNS)
def test_four_times_the_rebalances_hold_no_more_memory(monkeypatch, design):
    given = scenario(120)
    run(given, design)  # fills caches, which have bounds of their own
    early, late = held(monkeypatch, given, design, timeline=False)
    assert late < 1.15 * early
    # Growth would be seen: that of a timeline is.
    early_with, late_with = held(monkeypatch, given, design, timeline=True)
    assert late_with - early_with > 3 * (late - early)
