"""The bars of a timeline: who owned each partition, and when it had no owner or several."""

from coterie.designs import read_scenario
from coterie.designs.bars import Bars, BarTotals
from coterie.designs.timeline import Timeline

EVENTS = [
    {"at": 5_300, "op": "create_topic", "topic": "t", "replicas": [[0], [0]]},
    {"at": 7_100, "op": "start", "consumer": "b", "group": "g", "subscription": {"t": 1}},
    {"at": 7_100, "op": "start", "consumer": "a", "group": "g", "subscription": {"t": 1}},
    {"at": 20_400, "op": "add_partitions", "topic": "t", "replicas": [[0]]},
    {"at": 31_000, "op": "delete_topic", "topic": "t"},
    {"at": 33_700, "op": "settle", "point": 1},
]
ENTRIES = [
    (7_100, "owns", "b", "t", 0),
    (9_450, "owns", "a", "t", 0),
    (9_450, "owns", "a", "t", 1),
    (9_450, "owns", "a", "t", 1),  # it did before
    (12_000, "gives_up", "b", "t", 0),
    (12_000, "gives_up", "b", "t", 0),
    (12_000, "gives_up", "b", "t", 1),  # it never did
    (15_020, "rebalance_began", ""),
    (18_900, "owns", "b", "t", 1),
    (24_000, "crashed", "a"),
    (29_010, "gives_up", "b", "t", 1),
    (33_700, "owns", "b", "t", 2),
]
T0, T1, T2 = (("g", "t", number) for number in range(3))
BARS = {  # from, until, owners; a partition that nobody subscribes to, or that is gone, has none
    T0: [
        (7_100, 9_450, ("b",)),
        (9_450, 12_000, ("a", "b")),
        (12_000, 24_000, ("a",)),
        (24_000, 31_000, ()),
    ],
    T1: [
        (7_100, 9_450, ()),
        (9_450, 18_900, ("a",)),
        (18_900, 24_000, ("a", "b")),
        (24_000, 29_010, ("b",)),
        (29_010, 31_000, ()),
    ],
    T2: [(20_400, 31_000, ())],
}


def followed(*chosen):
    config = {"brokers": [0], "broker": {"delete.topic.enable": "true"}}
    timeline = Timeline()
    for entry in ENTRIES:
        timeline.add(*entry)
    bars = Bars(chosen)
    bars.follow(read_scenario({"config": config, "events": EVENTS}), timeline)
    return bars


def test_a_bar_lasts_as_long_as_the_owners_are_the_same():
    found = {place: [] for place in BARS}
    for place, *bar in followed(*BARS).bars:
        found[place].append(tuple(bar))
    assert found == BARS


def test_bars_of_partitions_that_are_not_chosen_are_summed_alone():
    bars = followed(T1)
    assert {bar.place for bar in bars.bars} == {T1}
    assert bars.totals == {
        place: BarTotals(
            bars=len(own),
            shared_ms=sum(end - start for start, end, owners in own if len(owners) > 1),
            unowned_ms=sum(end - start for start, end, owners in own if not owners),
        )
        for place, own in BARS.items()
    }


def test_bars_of_a_group_end_with_its_last_subscriber_and_those_of_owners_with_the_run():
    start = {"at": 7_100, "op": "start", "subscription": {"t": 1}}
    events = [
        EVENTS[0],
        *({**start, "consumer": name, "group": group} for name, group in ("bg", "ch")),
        {"at": 40_000, "op": "close", "consumer": "b"},
        {"at": 50_600, "op": "settle", "point": 1},
    ]
    timeline = Timeline()
    timeline.add(8_000, "owns", "b", "t", 0)
    timeline.add(9_000, "owns", "c", "t", 1)
    timeline.add(40_000, "closed", "b")
    of_h = ("h", "t", 1)
    bars = Bars([T0, T1, of_h])
    bars.follow(read_scenario({"events": events}), timeline)
    assert sorted(bars.bars) == [
        (T0, 7_100, 8_000, ()),
        (T0, 8_000, 40_000, ("b",)),
        (T1, 7_100, 40_000, ()),
        (of_h, 7_100, 9_000, ()),
        (of_h, 9_000, 50_600, ("c",)),
    ]
