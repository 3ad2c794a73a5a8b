"""What a run gives an application, what some events lead to, and how the run is shown."""

import sys
from types import SimpleNamespace

import pytest

from coterie.designs.page import TINTS, shortened
from coterie.histories import (
    Crash,
    DeleteGroup,
    DeleteTopic,
    ExpireOffsets,
    FailCommit,
    History,
    LoseRequest,
    LoseResponse,
    Pause,
    random_history,
)
from coterie.histories.instance import Instance
from coterie.histories.ledger import Ledger
from coterie.histories.outcome import Outcome
from coterie.histories.page import page_data
from coterie.histories.reporting import latest, report
from coterie.histories.runner import Run
from coterie.histories.timeline import timeline
from coterie.testing import TopicPartition
from support.histories.mistakes import Application

AT_MS = 60_000
FEW = {"topics": {"t": 2}, "minutes": 3, "records_per_minute": 20, "processing_ms": 10}


def times(outcome, kind, member="member-0"):
    return [n.at_ms for n in outcome._ledger.notes if (n.member, n.kind) == (member, kind)]


def offsets(outcome, partition=0):
    return [work.offset for work in outcome._ledger.works["t", partition]]


def test_options_that_are_left_out_have_their_documented_defaults():
    for seed in range(30):
        assert random_history(seed) == random_history(
            seed, members=(1, 4), topics={"records": 6}, minutes=10, events=None, most_events=8,
            settings=None, records_per_minute=(2, 10), processing_ms=(0, 1000), longest_ms=60_000,
            outputs=None, static=False,
        )  # fmt: skip


def test_the_records_of_a_poll_know_their_partitions_and_the_offsets_to_commit():
    seen = []

    class Looks(Application):
        def process(self, records):
            if len(records) > 3:
                plain = [records[at] for at in range(len(records))]
                seen.append((plain, records))
            super().process(records)

    slow = {"records_per_minute": 60, "processing_ms": 700}
    History(1, **FEW | slow).run(Looks)
    assert len(seen) > 3
    for plain, records in seen:
        places = list(dict.fromkeys(TopicPartition(r.topic, r.partition) for r in plain))
        assert records.partitions() == places
        for tp in places:
            of_it = [r for r in plain if (r.topic, r.partition) == tp]
            assert [*list.__iter__(records.records(tp))] == of_it
            assert records.next_offsets()[tp] == of_it[-1].offset + 1
        assert [*list.__iter__(records[1:3])] == plain[1:3]


@pytest.mark.parametrize(
    ("chooses", "read"),
    [
        (lambda consumer, listener: None, {("t", 0), ("t", 1), ("u", 0)}),
        (lambda consumer, listener: consumer.assign([("t", 1)]), {("t", 1)}),
        (lambda consumer, listener: consumer.subscribe(["u"], listener), {("u", 0)}),
    ],
)
def test_an_application_may_choose_its_topics_or_partitions_itself(chooses, read):
    class Chooses(Application):
        def __init__(self, consumer, store):
            super().__init__(consumer, store)
            chooses(consumer, self)

    outcome = History(1, {"t": 2, "u": 1}, 1, processing_ms=0).run(Chooses)
    assert set(outcome._ledger.works) == read


def test_what_finds_where_a_new_member_would_begin_processes_nothing():
    calls = []

    class TakesOne(Application):
        def process(self, records):
            calls.append(len(records))
            self.work(records[:1])  # and commits nothing

    outcome = History(1, **FEW).run(TakesOne)
    assert {work.member for works in outcome._ledger.works.values() for work in works} == {
        "member-0"
    }
    assert len(calls) == sum(map(len, outcome._ledger.works.values()))
    ends = outcome._ledger.ends
    assert {place: (end.start, len(end.offsets)) for place, end in ends.items()} == {
        ("t", 0): (0, 60), ("t", 1): (0, 60),
    }  # fmt: skip
    assert outcome.lost == []  # a new member would process all


def test_nobody_looks_where_a_new_member_would_begin_if_all_records_were_processed():
    class CommitsNothing(Application):
        def process(self, records):
            self.work(records)

    outcome = History(1, **FEW).run(CommitsNothing)
    assert {note.member for note in outcome._ledger.notes} == {"member-0", ""}
    assert {end.start for end in outcome._ledger.ends.values()} == {None}


def test_nobody_looks_where_a_new_member_would_begin_if_offsets_are_committed():
    class ProcessesNothing(Application):
        def process(self, records):
            self.consumer.commit()

    outcome = History(1, **FEW).run(ProcessesNothing)
    assert [(item.first_offset, item.last_offset) for item in outcome.lost] == [(0, 59)] * 2
    assert {note.member for note in outcome._ledger.notes} == {"member-0", ""}


def test_an_offset_of_0_is_a_committed_offset():
    run = Run(History(1, {"t": 2}, 1), Application)
    run.cluster.call("offset_commit", "group", {("t", 0): 0, ("t", 1): 3})
    assert run.committed() == {("t", 0): 0, ("t", 1): 3}


def test_no_event_strikes_after_the_faults_have_ended():
    run = Run(History(1, {"t": 2}, 1), Application)
    run.outcome()
    run.strike(DeleteTopic(AT_MS, "t"), None)
    assert "t" in run.cluster.topics


def test_without_hypothesis_the_timeline_of_a_finding_is_for_the_report_of_pytest(monkeypatch):
    monkeypatch.delitem(sys.modules, "hypothesis.control")
    outcome = SimpleNamespace(timeline=lambda items: f"timeline of {items}")
    report(outcome, ["finding"])
    assert [latest.take(), latest.take()] == ["timeline of ['finding']", None]


def test_an_event_of_a_member_that_does_not_exist_does_nothing():
    history = History(2, **FEW, events=(Crash(AT_MS, member=2), Pause(AT_MS, 99)))
    outcome = history.run(Application)
    assert not [note for note in outcome._ledger.notes if note.kind in ("event", "crashed")]


def test_a_commit_that_is_refused_for_good_ends_the_member_which_starts_again_a_second_later():
    events = (FailCommit(AT_MS, member=1, error="GROUP_AUTHORIZATION_FAILED"),)
    outcome = History(2, **FEW, events=events).run(Application)
    ((failed_ms, member, _, error),) = outcome.errors
    assert member == "member-1"
    assert AT_MS <= failed_ms < AT_MS + 4000
    assert "GROUP_AUTHORIZATION_FAILED" in str(error)
    assert failed_ms + 1000 in times(outcome, "started", "member-1")
    assert not History(2, **FEW, events=(FailCommit(AT_MS),)).run(Application).errors


@pytest.mark.parametrize("kind", [LoseRequest, LoseResponse])
def test_a_lost_commit_is_sent_again_and_other_requests_are_left_alone(kind):
    outcome = History(1, **FEW, events=(kind(AT_MS, api="OffsetCommit"),)).run(Application)
    commits = [n for n in outcome._ledger.notes if n.kind == "committed" and n.details[1]]
    assert [n.details[1] for n in commits] == ["DisconnectError"]
    assert AT_MS <= commits[0].at_ms < AT_MS + 4000
    assert not outcome.errors
    assert offsets(outcome) == list(range(60))


def test_after_offsets_have_expired_all_members_begin_where_new_ones_do():
    outcome = History(2, **FEW, events=(ExpireOffsets(AT_MS),)).run(Application)
    for member in ("member-0", "member-1"):
        closed_ms = times(outcome, "closed", member)[0]
        assert AT_MS <= closed_ms < AT_MS + 1000
        started_ms = times(outcome, "started", member)[1]
        assert started_ms == AT_MS + 1000  # the first look at the empty group
    for partition in (0, 1):
        found = offsets(outcome, partition)
        again = found.index(0, 1)
        assert found == [*range(again), *range(60)]


def test_a_deleted_group_loses_its_members_and_its_offsets():
    outcome = History(2, **FEW, events=(DeleteGroup(AT_MS),)).run(Application)
    for member in ("member-0", "member-1"):  # by its next commit or heartbeat
        assert any(AT_MS < at_ms <= AT_MS + 5000 for at_ms in times(outcome, "join", member))
    assert {item.offset for item in outcome.repeated} >= set(range(15))
    assert not outcome.stuck


def ledger_of(*notes):
    ledger = Ledger()
    for note in notes:
        ledger.note(*note)
    return ledger


@pytest.mark.parametrize(("count", "left_out"), [(200, 0), (201, 1), (250, 50)])
def test_the_middle_of_a_long_timeline_is_left_out(count, left_out):
    ledger = ledger_of(*((at_ms, "a", "paused") for at_ms in range(count)))
    lines = timeline(History(), ledger, []).split("\n\nowners")[0].splitlines()
    shown = [int(line.split(".")[1][:3]) for line in lines if "paused" in line]
    if left_out:
        assert lines[100] == f"            ... {left_out} lines left out"
        assert shown == [*range(100), *range(count - 100, count)]
    else:
        assert shown == [*range(count)]


def test_notes_are_shown_in_words():
    ledger = ledger_of(
        (1, "a", "assigned", []), (2, "a", "join", "details"), (3, "a", "late"),
        (4, "a", "fenced", "why"), (5, "a", "failed", ValueError("no")),
        (6, "a", "lost", [("t", 1), ("u", 0), ("t", 0)]),
    )  # fmt: skip
    texts = [line[23:] for line in timeline(History(), ledger, []).splitlines()[:6]]
    assert texts == [
        "on_partitions_assigned: none", "join", "late", "fenced: why", "failed: ValueError: no",
        "on_partitions_lost: t 0 1; u 0",
    ]  # fmt: skip


def test_the_data_of_a_page_have_a_lane_with_the_owners_of_each_partition():
    crash = Crash(4000)
    ledger = ledger_of(
        (1000, "b", "assigned", [("u", 0)]), (2000, "a", "join"),
        (2000, "a", "assigned", [("t", 1)]), (3000, "a", "assigned", [("u", 0)]),
        (4000, "", "event", crash), (9000, "a", "crashed"),
    )  # fmt: skip
    ledger.ends = dict.fromkeys([("u", 0), ("t", 1)])
    for place in ledger.ends:
        ledger.ends[place] = SimpleNamespace(offsets=[], start=None, end=0, position=0, owner=None)
    data = page_data(Outcome(History(), ledger, {}, {}), SimpleNamespace(ledger=ledger))
    (lane,) = data.pop("lanes")
    nobody, a, b, both = range(4)
    assert lane["bars"] == [
        [0, 0, 2000, nobody], [0, 2000, 9000, a], [0, 9000, 9000, nobody],
        [1, 0, 1000, nobody], [1, 1000, 3000, b], [1, 3000, 9000, both], [1, 9000, 9000, b],
    ]  # fmt: skip
    assert [len(names) > 0 for names in lane["owners"]] == [False, True, True, True]
    assert lane["tints"] == [0, 0, 1, 0]  # of the first owner by name
    assert [at_ms for at_ms, _ in lane["rebalances"]["marks"]] == [2000]
    assert lane["costs"] == {"rebalances": 1, "unowned_seconds": 3.0, "shared_seconds": 6.0}
    assert data["until_ms"] == 9000
    assert data["partitions"] == ["t/1", "u/0"]
    assert data["ops"] == [[4000, repr(crash)]]
    assert [at_ms for at_ms, _ in data["marks"]] == [4000]
    assert data["left_out"] == {"partitions": 0}
    for at_ms, member in enumerate("hgfedc", 9500):
        ledger.note(at_ms, member, "assigned", [("t", 1)])
    for at_ms in range(10_000, 10_401):
        ledger.note(at_ms, "a", "join")
        ledger.note(at_ms, "", "event", crash)
    data = page_data(Outcome(History(), ledger, {}, {}), SimpleNamespace(ledger=ledger))
    (lane,) = data["lanes"]
    assert shortened("cdefgh") in lane["owners"]
    tint_of = {names[0]: tint for names, tint in zip(lane["owners"], lane["tints"], strict=True)
               if names}  # fmt: skip
    assert tint_of == {name: number % TINTS for number, name in enumerate("abcdefgh")}
    # 403 different times are too many: each mark has those of 2 ms
    assert (lane["rebalances"]["span_ms"], data["mark_ms"]) == (2, 2)
    ledger.ends = {("t", number): ledger.ends["t", 1] for number in range(203)}
    data = page_data(Outcome(History(), ledger, {}, {}), SimpleNamespace(ledger=ledger))
    assert len(data["partitions"]) == 200
    assert data["left_out"] == {"partitions": 3}


def test_a_probe_ends_as_soon_as_it_knows_where_each_partition_begins():
    class Reader:
        polls = 0

        def poll(self, timeout_ms):
            self.polls += 1
            return [SimpleNamespace(topic="t", partition=self.polls - 1, offset=7)]

    run = SimpleNamespace(ledger=SimpleNamespace(ends={("t", 0): None, ("t", 1): None}))
    reader, starts = Reader(), {}
    Instance(run, 0, {})._find_starts(reader, starts)
    assert reader.polls == 2
    assert starts == {("t", 0): 7, ("t", 1): 7}
