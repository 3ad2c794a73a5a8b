"""What each event does to a run, and for how long: seen in what members do meanwhile."""

import re

import pytest

from coterie.histories import (
    AddPartitions,
    Close,
    Crash,
    Cut,
    DeleteTopic,
    Failover,
    FailWrite,
    History,
    Join,
    LoseRequest,
    Pause,
    Restart,
    RollingDeploy,
    SlowProcessing,
    SlowWrite,
    WriteFailed,
    now_ms,
    run_in_thread,
    sleep,
)
from coterie.histories.actions import deployed
from coterie.histories.runner import Run
from support.histories.mistakes import Application

AT_MS = 60_000


def ledger_of(*events, **more):
    fields = {"members": 2, "minutes": 3, "topics": {"t": 4}, "records_per_minute": 20}
    fields |= {"processing_ms": 100}
    return History(events=events, **fields | more).run(Application)._ledger


def times_of(ledger, member, *kinds):
    """When a member did this, without the end of the run, which starts and closes all."""
    return [n.at_ms for n in ledger.notes if n.member == member and n.kind in kinds][:20]


def silent(ledger, kind, start_ms, end_ms, member="member-0"):
    """Whether a member did nothing of a kind in a time, and did so right before and after it."""
    times = [
        note.at_ms
        for note in ledger.notes
        if (note.member, note.kind) == (member, kind)
        and (kind != "committed" or note.details[1] is None)  # else it has failed
    ]
    inside = [at for at in times if start_ms + 10 < at < end_ms]
    around = [
        at for at in times if start_ms - 5000 < at <= start_ms or end_ms <= at < end_ms + 5000
    ]
    return not inside and min(around) < start_ms and max(around) >= end_ms


def test_a_member_that_is_cut_off_commits_nothing_until_the_cut_is_over():
    ledger = ledger_of(Cut(at_ms=AT_MS, lasts_ms=20_000))
    assert silent(ledger, "committed", AT_MS, AT_MS + 20_000)


def test_a_process_that_is_paused_does_nothing():
    ledger = ledger_of(Pause(at_ms=AT_MS, pause_ms=20_000))
    assert silent(ledger, "commit", AT_MS, AT_MS + 20_000)


def test_no_commit_is_done_while_a_new_coordinator_loads():
    ledger = ledger_of(Failover(at_ms=AT_MS, load_ms=15_000))
    for member in ("member-0", "member-1"):
        assert silent(ledger, "committed", AT_MS, AT_MS + 15_000, member)


def test_a_crash_and_a_restart_have_the_down_time_that_they_say():
    ledger = ledger_of(
        Crash(at_ms=AT_MS, member=0, down_ms=7000), Restart(at_ms=AT_MS, member=1, down_ms=9000)
    )
    assert AT_MS in times_of(ledger, "member-0", "crashed")
    assert AT_MS + 7000 in times_of(ledger, "member-0", "started")
    (closed_ms, *_) = times_of(ledger, "member-1", "closed")
    assert AT_MS <= closed_ms < AT_MS + 2000
    assert times_of(ledger, "member-1", "started")[1] == closed_ms + 9000


def test_a_member_that_closes_stays_away_while_there_are_faults_and_one_that_joins_is_new():
    ledger = ledger_of(Close(at_ms=AT_MS, member=1), Join(at_ms=AT_MS))
    assert AT_MS <= times_of(ledger, "member-1", "closed")[0] < AT_MS + 2000
    starts = times_of(ledger, "member-1", "started")
    assert not [at for at in starts if AT_MS <= at < 3 * 60_000]
    assert times_of(ledger, "member-2", "started")[0] == AT_MS
    assert "member-2" in {work.member for works in ledger.works.values() for work in works}


@pytest.mark.parametrize(
    ("event", "again_ms"),
    [(Close(at_ms=170_000), 180_000), (Restart(at_ms=170_000, down_ms=5000), 185_000)],
)
def test_a_member_that_is_closing_when_the_faults_end_starts_again(event, again_ms):
    """At once, or as much later as it was to be down."""
    pause = Pause(at_ms=AT_MS, pause_ms=600_000, during="callback")  # the one of its close
    history = History(
        members=1,
        topics={"t": 1},
        minutes=3,
        records_per_minute=20,
        events=(pause, event),
    )
    outcome = history.run(Application)
    assert times_of(outcome._ledger, "member-0", "started") == [0, again_ms]
    assert not outcome.stuck


def test_slow_processing_multiplies_the_time_of_records_while_it_lasts():
    ledger = ledger_of(SlowProcessing(at_ms=AT_MS, lasts_ms=30_000, factor=7))
    took = {True: set(), False: set()}
    for work in (work for works in ledger.works.values() for work in works):
        is_slow = AT_MS <= work.start_ms < AT_MS + 30_000 and work.member == "member-0"
        took[is_slow].add(work.end_ms - work.start_ms)
    assert took == {True: {700}, False: {100}}


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_record_whose_write_fails_is_processed_after_the_restart(in_thread):
    class HandsOver(Application):
        def work(self, records):
            job = run_in_thread(super().work, records)
            while not job.done:
                sleep(10)

    history = History(2, {"t": 4}, 3, (FailWrite(at_ms=AT_MS),), records_per_minute=20)
    outcome = history.run(HandsOver if in_thread else Application)
    (note,) = outcome.errors
    assert type(note.details) is WriteFailed
    partition, offset = map(int, re.findall(r"\d+", str(note.details)))
    works = [w for w in outcome._ledger.works["t", partition] if w.offset == offset]
    assert [work.end_ms > note.at_ms > AT_MS for work in works] == [True]
    assert not outcome.lost
    assert not outcome.stuck


def test_an_application_that_goes_on_after_a_failed_write_loses_the_record():
    class GoesOn(Application):
        def work(self, records):
            try:
                super().work(records)
            except Exception as error:
                self.store["error"] = str(error)

    outcome = History(1, {"t": 1}, 3, (FailWrite(at_ms=AT_MS),)).run(GoesOn)
    (item,) = outcome.lost
    assert f"the write of t-0@{item.first_offset} has failed" == outcome.store["error"]


def test_one_record_takes_longer_by_a_slow_write():
    ledger = ledger_of(SlowWrite(at_ms=AT_MS, lasts_ms=7000))
    works = [work for works in ledger.works.values() for work in works]
    slow = [work for work in works if work.end_ms - work.start_ms != 100]
    assert [(work.member, work.end_ms - work.start_ms) for work in slow] == [("member-0", 7100)]


def test_topics_change():
    ledger = ledger_of(
        AddPartitions(at_ms=AT_MS, topic="t", count=2),
        DeleteTopic(at_ms=AT_MS, topic="u"),
        topics={"t": 1, "u": 1},
    )
    assert set(ledger.ends) == {("t", 0), ("t", 1), ("t", 2)}


def test_a_deploy_restarts_the_members_one_after_the_other():
    ledger = ledger_of(RollingDeploy(at_ms=AT_MS, step_ms=15_000), members=3)
    for number in range(3):
        closed_ms = times_of(ledger, f"member-{number}", "closed")[0]
        assert 0 <= closed_ms - AT_MS - number * 15_000 < 2000
        assert closed_ms in times_of(ledger, f"member-{number}", "started")


STRATEGY = "partition.assignment.strategy"


@pytest.mark.parametrize(
    ("before", "assignor", "after"),
    [
        (None, "sticky", ["sticky", "range", "cooperative-sticky"]),  # a consumer's default
        ("range,sticky", "sticky", ["sticky", "range"]),
        (["range", "sticky"], "roundrobin", ["roundrobin", "range", "sticky"]),
        ("range", "range", ["range"]),
        ("range", None, "range"),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("protocol", [None, "classic"])
def test_a_deploy_puts_its_assignor_before_those_that_a_member_has(
    before, assignor, after, protocol
):
    settings = {"client.rack": "r", "group.protocol": "consumer"}
    settings |= {} if before is None else {STRATEGY: before}
    given = dict(settings)
    changed = deployed(settings, RollingDeploy(at_ms=5, assignor=assignor, protocol=protocol))
    assert changed.pop(STRATEGY, None) == after
    assert changed == {"client.rack": "r", "group.protocol": protocol or "consumer"}
    assert settings == given


def test_a_member_that_joins_after_a_deploy_has_the_new_settings():
    deploy = RollingDeploy(at_ms=10_000, assignor="sticky")
    run = Run(History(1, {"t": 2}, 1, (Join(at_ms=5_000), deploy, Join(at_ms=30_000))), Application)
    run.outcome()
    assert [one.settings[STRATEGY][0] for one in run.instances] == ["sticky"] * 3


def test_what_would_last_longer_ends_with_the_faults():
    ledger = ledger_of(
        Cut(at_ms=170_000, member=0, lasts_ms=10**7),
        SlowProcessing(at_ms=170_000, member=1, lasts_ms=10**7, factor=60),
    )
    late = [work for works in ledger.works.values() for work in works if work.start_ms >= 180_000]
    assert {work.end_ms - work.start_ms for work in late if work.member == "member-1"} == {100}
    commits = [
        note.at_ms for note in ledger.notes
        if (note.member, note.kind) == ("member-0", "committed") and note.details[1] is None
    ]  # fmt: skip
    assert 180_000 <= next(at for at in commits if at > 170_010) < 180_010


def test_a_request_that_did_not_come_before_the_end_of_the_faults_is_not_lost():
    run = Run(History(1, {"t": 1}, 1, (LoseRequest(at_ms=5_000, api="LeaveGroup"),)), Application)
    run.outcome()
    assert not run.cluster.call("describe_group", "group").members


def test_after_the_faults_a_run_waits_half_an_hour_for_what_nobody_processes():
    class Paused(Application):
        def on_partitions_assigned(self, partitions):
            self.consumer.pause(partitions)

    outcome = History(1, {"t": 1}, 1).run(Paused)
    assert outcome.stuck
    (closed_ms,) = times_of(outcome._ledger, "member-0", "closed")
    assert 0 <= closed_ms - 31 * 60_000 < 1000


def test_a_member_that_is_down_has_no_positions():
    run = Run(History(1, {"t": 1}, 1), Application)
    run.join()
    run.schedule.run_until(20_000)
    (member,) = run.instances
    assert set(member.positions()) == {("t", 0)}
    member.crash(None)
    assert (member.positions(), member.processes()) == ({}, [])


def test_a_member_that_never_ends_its_close_is_killed():
    class NeverEnds(Application):
        def on_partitions_revoked(self, partitions):
            sleep(10**9)

    ledger = History(1, {"t": 1}, 1).run(NeverEnds)._ledger
    (crashed_ms,) = times_of(ledger, "member-0", "crashed")
    assert 0 <= crashed_ms - 6 * 60_000 < 2000  # five minutes after all was processed


@pytest.mark.parametrize("is_static", [True, False])
def test_static_members_have_their_names_as_instance_ids(is_static):
    run = Run(History(2, {"t": 2}, 1, (Join(at_ms=5_000),), static=is_static), Application)
    run.outcome()
    names = [f"member-{number}" for number in range(3)]
    ids = [one.settings.get("group.instance.id") for one in run.instances]
    assert ids == (names if is_static else [None] * 3)


def test_what_strikes_during_a_callback_comes_before_the_code_of_the_application():
    class Listens(Application):
        def on_partitions_assigned(self, partitions):
            self.store.setdefault("calls_ms", []).append(now_ms())

    outcome = History(1, {"t": 1}, 1, (Crash(at_ms=0, during="callback"),)).run(Listens)
    first_ms, second_ms = times_of(outcome._ledger, "member-0", "assigned")
    assert times_of(outcome._ledger, "member-0", "crashed") == [first_ms]
    assert outcome.store["calls_ms"] == [second_ms]


def test_what_has_not_struck_when_the_faults_end_delays_nothing_after_them():
    """The second member starts again at the end, so there is a callback to wait for."""
    crash = Crash(at_ms=10_000, member=1, down_ms=600_000)

    def notes(*events):
        outcome = History(2, {"t": 2}, 2, (crash, *events)).run(Application)
        return [note[:3] for note in outcome._ledger.notes]

    without = notes()
    assert max(at_ms for at_ms, *_ in without) > 120_000
    assert notes(Pause(at_ms=100_000, during="callback")) == without
