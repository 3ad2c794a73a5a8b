"""What a run's ledger means: findings, owners and the timeline, against their definitions."""

from itertools import pairwise
from types import SimpleNamespace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.histories import History
from coterie.histories.ledger import Ledger, PartitionEnd
from coterie.histories.outcome import Lost, Outcome, Stuck
from coterie.histories.page import costs
from coterie.histories.timeline import ownership, timeline

MANY = settings(max_examples=120, derandomize=True, database=None)
HISTORY = History(members=2, minutes=1)
PLACES = [("a", 0), ("b", 1)]
MEMBERS = st.sampled_from(["one", "two", "three"])
PLACE, OFFSET, TIME_MS = st.sampled_from(PLACES), st.integers(0, 5), st.integers(0, 9)
WORKS = st.lists(st.tuples(PLACE, OFFSET, TIME_MS, st.integers(0, 3), MEMBERS), max_size=8)
MAYBE = st.none() | st.integers(0, 6)
ENDS = st.fixed_dictionaries(
    {p: st.tuples(st.sets(OFFSET), MAYBE, st.none() | MEMBERS) for p in PLACES}
)
COMMITS = st.lists(
    st.tuples(MEMBERS, st.dictionaries(PLACE, st.integers(0, 6)), st.booleans()), max_size=5
)


def offsets_of(**offsets):
    return {
        (name[0], int(name[1:])): SimpleNamespace(offset=offset) for name, offset in offsets.items()
    }


NO_ENDS = dict.fromkeys(PLACES, (frozenset(), None, None))
THREADS = [(0, 1500, "one"), (10, 20, "one"), (1000, 400, "two")]  # two of one member at work


@MANY
@given(WORKS, ENDS, COMMITS, st.booleans())
@example([(PLACES[0], n, *when) for n, when in enumerate(THREADS)], NO_ENDS, [], False)
def test_findings_are_what_their_definitions_say(works, ends, commits, stuck):
    ledger = Ledger()
    ledger.stuck = stuck
    for place, offset, start_ms, took_ms, member in works:
        ledger.add(place, offset, start_ms, start_ms + took_ms, member)
    for place, (offsets, start, owner) in ends.items():
        ledger.ends[place] = PartitionEnd(sorted(offsets), 6, start, owner)
    for at_ms, (member, offsets, is_done) in enumerate(commits):
        sent = {place: SimpleNamespace(offset=offset) for place, offset in offsets.items()}
        ledger.note(at_ms, member, "commit", sent)
        ledger.note(at_ms, member, "committed", (sent, None if is_done else "refused"))
    outcome = Outcome(HISTORY, ledger, {}, {})
    for topic, partition in PLACES:
        place = topic, partition
        done = ledger.works.get(place, [])
        numbers = [work.offset for work in done]
        end = ledger.ends[place]

        def here(found, place=place):
            return [item for item in found if (item.topic, item.partition) == place]

        assert {item.offset: list(item.works) for item in here(outcome.repeated)} == {
            n: [work for work in done if work.offset == n] for n in numbers if numbers.count(n) > 1
        }
        # a record that is processed for the first time after a later one
        assert [item[2:] for item in here(outcome.out_of_order)] == [
            (work.offset, max(numbers[:at]), work.end_ms, work.member)
            for at, work in enumerate(done)
            if work.offset not in numbers[:at] and max(numbers[:at], default=-1) > work.offset
        ]
        # of each other member that was at work when a work began, one that shows it
        by_time = sorted(done, key=lambda work: (work.start_ms, work.end_ms))
        assert {(item.second, item.first.member) for item in here(outcome.overlaps)} == {
            (work, other.member)
            for at, work in enumerate(by_time)
            for other in by_time[:at]
            if other.member != work.member and work.start_ms < min(other.end_ms, work.end_ms)
        }
        for item in here(outcome.overlaps):
            latest_start = max(item.first.start_ms, item.second.start_ms)
            assert latest_start < min(item.first.end_ms, item.second.end_ms)
        lost = here(outcome.lost)
        missing = [n for n in end.offsets if n < (end.start or 0) and n not in numbers]
        assert [n for x in lost for n in range(x.first_offset, x.last_offset + 1)] == missing
        assert all(x.last_offset + 1 < y.first_offset for x, y in pairwise(lost))
        for item in lost:  # passed by the commit since which all commits are beyond it
            passed = None, end.owner
            was_beyond = False
            for commit in outcome.commits:
                if place in commit.offsets:
                    beyond = commit.offsets[place] > item.first_offset
                    if not beyond:
                        passed = None, end.owner
                    elif not was_beyond:
                        passed = commit.at_ms, commit.member
                    was_beyond = beyond
            assert (item.passed_ms, item.member) == passed
        waiting = [n for n in end.offsets if n >= (end.start or 0) and n not in numbers]
        expected = [Stuck(topic, partition, waiting[0], 6, end.owner)] if waiting and stuck else []
        assert here(outcome.stuck) == expected
    assert [(commit.at_ms, commit.member, commit.offsets) for commit in outcome.commits] == [
        (at_ms, member, offsets) for at_ms, (member, offsets, ok) in enumerate(commits) if ok
    ]


ENDINGS = st.sampled_from(["started", "closed", "crashed", "failed"])
NOTES = st.lists(
    st.tuples(st.sampled_from(["assigned", "revoked", "lost"]), MEMBERS, st.sets(PLACE))
    | st.tuples(ENDINGS | st.just("paused"), MEMBERS, st.none()),
    max_size=12,
)


@MANY
@given(NOTES, st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_a_partition_is_owned_from_its_assignment_until_the_member_loses_it_or_ends(notes, steps):
    ledger, at_ms = Ledger(), 0
    owners_at = {0: set()}  # after all that happened in a millisecond
    owners = set()
    for step, (kind, member, places) in zip(steps, notes, strict=False):
        at_ms += step
        ledger.note(at_ms, member, kind, places)
        if kind == "assigned":
            owners = owners | ({member} if PLACES[0] in places else set())
        elif kind != "paused" and (places is None or PLACES[0] in places):
            owners = owners - {member}
        owners_at[at_ms] = owners
    spans = ownership(ledger.notes, PLACES[0])
    starts = [start_ms for start_ms, _ in spans]
    assert starts == sorted(set(starts))
    for time_ms in range(at_ms + 1):
        expected = owners_at[max(t for t in owners_at if t <= time_ms)]
        assert [owners for start_ms, owners in spans if start_ms <= time_ms][-1] == expected


def test_the_timeline_sums_up_work_and_commits_between_two_events():
    ledger = Ledger()
    ledger.ends = dict.fromkeys([("a", 0), ("a", 1), ("b", 0)])
    ledger.note(0, "one", "assigned", [("b", 0), ("a", 1), ("a", 0)])
    for at_ms, offset in enumerate([0, 1, 2, 5, 7, 8], 1):
        ledger.add(("a", 0), offset, at_ms, at_ms, "one")
    ledger.add(("b", 0), 3, 8, 9, "one")
    sent, refused = offsets_of(b0=4, a0=9), offsets_of(a1=2)
    for offsets, failure in ((sent, None), (refused, "REBALANCE_IN_PROGRESS")):
        ledger.note(10, "one", "commit", offsets)
        ledger.note(11, "one", "committed", (offsets, failure))
    ledger.note(12, "one", "commit", offsets_of(a0=10))
    ledger.note(60_123, "one", "crashed")
    whole = timeline(HISTORY, ledger, []).splitlines()
    assert whole[:-2] == [
        "  0:00.000  one        on_partitions_assigned: a 0 1; b 0",
        "  0:00.006  one        processed a-0@0..2,5,7..8",
        "  0:00.009  one        processed b-0@3",
        "  0:00.011  one        committed a-0 9, b-0 4",
        "  0:00.011  one        commit of a-1 2: REBALANCE_IN_PROGRESS",
        "  0:00.012  one        commit of a-0 10: no response",
        "  1:00.123  one        crashed",
        "",
        "owners",
        "  a-0: 0:00.000 one, 1:00.123 nobody",
        "  a-1: 0:00.000 one, 1:00.123 nobody",
        "  b-0: 0:00.000 one, 1:00.123 nobody",
    ]
    # the commit that an item names has a line, at its time, before what comes of it
    lost = timeline(HISTORY, ledger, [Lost("a", 0, 6, 6, 10, "one")]).splitlines()
    assert lost[:6] == [
        "a-0@6 never processed; one committed past it at 0:00.010",
        "",
        "  0:00.000  one        on_partitions_assigned: a 0 1; b 0",
        "  0:00.006  one        processed a-0@0..2,5,7..8",
        "  0:00.010  one        commit of a-0 9 sent",
        "  0:00.011  one        committed a-0 9",
    ]
    # with an item, only its partition
    part = timeline(HISTORY, ledger, [Stuck("a", 1, 2, 3, None)]).splitlines()
    assert part[0] == "a-1@2 waits in vain, owned by nobody"
    assert [line for line in part if "process" in line or "commit" in line] == [
        "  0:00.011  one        commit of a-1 2: REBALANCE_IN_PROGRESS"
    ]
    assert [line for line in part if line.startswith("  a-") or line.startswith("  b-")] == [
        "  a-1: 0:00.000 one, 1:00.123 nobody"
    ]


def test_what_ends_at_one_moment_is_in_the_order_of_its_partitions():
    ledger, places = Ledger(), [("a", number) for number in range(8)]
    ledger.ends = dict.fromkeys(places)
    for place in reversed(places):
        ledger.add(place, 6, 1, 2, f"of {place[1]}")
    for place in reversed(places):
        ledger.add(place, 5, 2, 20 - place[1], "of all")
        ledger.add(place, 5, 30, 40, "of others")
        ledger.add(place, 6, 30, 40, "of others")
    lines = timeline(HISTORY, ledger, []).splitlines()
    assert [line.split("processed ")[1] for line in lines[:8]] == [f"a-{n}@6" for n in range(8)]
    later = [line.split("processed ")[1] for line in lines[8:16]]
    assert later == [f"a-{n}@5" for n in reversed(range(8))]  # a-7's ends first
    owners = lines[lines.index("owners") + 1 :][:8]
    assert [line.split(":")[0] for line in owners] == [f"  a-{n}" for n in range(8)]
    repeated = Outcome(HISTORY, ledger, {}, {}).repeated
    by_place = [[item.offset for item in repeated if item[:2] == place] for place in places]
    assert by_place == [[5, 6]] * 8


def test_the_cost_of_a_lane_is_the_time_of_partitions_with_no_owner_and_with_several():
    owners = {(): 0, ("one",): 1, ("one", "two"): 2}
    bars = [[0, 0, 1000, 0], [0, 1000, 3000, 1], [0, 3000, 6000, 2], [1, 0, 500, 2]]
    expected = {"rebalances": 7, "unowned_seconds": 1.0, "shared_seconds": 3.5}
    assert costs(bars, owners, 7) == expected
