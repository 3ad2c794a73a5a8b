"""Histories: drawn, printed, run; the report of what they find."""

import json
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings

import coterie.histories
from coterie import ArgumentError, ConfigError, CoterieError, GroupCoordinator
from coterie._core.structures.schedule import MOST_CALLS
from coterie.base import terminal
from coterie.events import Response
from coterie.histories import (
    EVENTS,
    Crash,
    Failover,
    History,
    Pause,
    now_ms,
    random_history,
    reporting,
    run_in_thread,
    sleep,
    tracing,
)
from coterie.testing import histories
from support.doc_pages import blocks
from support.histories.mistakes import Application, CommitsFirst, OwnOffsets

FEW = settings(max_examples=100, derandomize=True, database=None)
pytest_plugins = ["pytester"]
PAUSED = History(members=2, minutes=2, events=(Pause(at_ms=61_000, pause_ms=50_000),))


@FEW
@given(histories(topics={"orders": 6}, outputs={"bills": 2}, static=True))
def test_the_repr_of_a_history_is_python_that_makes_it(history):
    assert eval(repr(history), vars(coterie.histories).copy()) == history


def test_each_kind_of_event_is_drawn():
    kinds = {type(event) for seed in range(100) for event in random_history(seed).events}
    assert kinds == set(EVENTS.values())


def test_events_are_in_order_and_concern_members_that_exist():
    for seed in range(200):
        history = random_history(seed)
        times = [event.at_ms for event in history.events]
        assert times == sorted(times)
        assert all(0 <= at_ms <= history.minutes * 60_000 for at_ms in times)
        assert all(getattr(event, "member", 0) <= history.members for event in history.events)


ONE_RUN = """
import hashlib
from coterie.histories import random_history
from support.histories.mistakes import Application
text = "".join(
    repr(h) + "".join(h.trace(Application)) + h.run(Application).timeline()
    for h in (random_history(seed, minutes=3) for seed in range(3))
)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_a_seed_gives_the_same_history_trace_and_timeline_under_every_hash_seed():
    printed = {
        subprocess.run(
            [sys.executable, "-c", ONE_RUN],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "tests"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert len(printed.pop()) == 65


def test_without_events_nothing_is_found():
    outcome = History(members=3, topics={"orders": 4}).run(Application)
    for name in ("lost", "repeated", "overlaps", "stuck", "out_of_order", "errors"):
        assert not getattr(outcome, name)
    works = outcome._ledger.works
    assert sorted(works) == [("orders", number) for number in range(4)]
    assert {len(one) for one in works.values()} == {60}  # six a minute


def test_every_record_is_processed_once_if_the_store_has_the_offsets():
    outcome = PAUSED.run(OwnOffsets)
    applied = outcome.store["applied"]
    assert {offset for _, offset in applied} == set(range(12))


def test_offsets_by_the_number_of_a_partition_are_found_as_partitions_have_their_own_rates():
    class MixesTopics(Application):
        def process(self, records):
            self.work(records)
            self.done = getattr(self, "done", {})
            self.done |= {tp.partition: at for tp, at in records.next_offsets().items()}
            mine = (tp for tp in self.consumer.assignment() if tp.partition in self.done)
            self.consumer.commit({tp: self.done[tp.partition] for tp in mine})

    def loses(seed, **options):
        history = random_history(seed, topics={"orders": 2, "bills": 2}, minutes=4, **options)
        return bool(history.run(MixesTopics).lost)

    assert any(loses(seed) for seed in range(20))
    assert not any(loses(seed, records_per_minute=6) for seed in range(20))


def test_an_application_that_never_processes_is_stuck():
    class Paused(Application):
        def on_partitions_assigned(self, partitions):
            self.consumer.pause(partitions)

    outcome = History(members=1, topics={"orders": 1}, minutes=1).run(Paused)
    assert [item[:4] for item in outcome.stuck] == [("orders", 0, 0, 6)]
    assert not outcome.lost


class Skips:
    """Pauses its partition, or goes to its end, at the first record."""

    how = "pause"

    def __init__(self, consumer, store):
        self.consumer = consumer

    def process(self, records):
        for record in records:
            if record.offset == 2:
                partition = record.topic, record.partition
                if self.how == "pause":
                    self.consumer.pause([partition])
                elif self.how == "seek":
                    self.consumer.seek(partition, 4)
                else:
                    self.consumer.seek_to_end([partition])


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("pause", "waits in vain, owned by member-0, which paused the partition"),
        ("seek", "seek to orders-0@4"),
        ("end", "start at the end: orders-0@"),
    ],
)
def test_the_timeline_says_that_records_were_skipped_or_paused(how, line):
    application = type("Application", (Skips,), {"how": how})
    outcome = History(members=1, topics={"orders": 1}, minutes=1).run(application)
    assert line in outcome.timeline(outcome.stuck)


def test_a_thread_that_has_ended_leaves_its_records_stuck_and_one_that_goes_on_does_not():
    class GoesOn(Application):
        def __init__(self, consumer, store):
            super().__init__(consumer, store)
            self.batches = []
            run_in_thread(self.work_on)

        def process(self, records):
            self.batches.append(records)

        def work_on(self):
            while True:
                sleep(50)
                while self.batches:
                    self.work(self.batches.pop(0))
                    if self.ends():
                        return

        def ends(self):
            return False

    class Ends(GoesOn):
        def ends(self):
            return now_ms() > 30_000

    history = History(members=1, topics={"orders": 1}, minutes=1)
    assert not history.run(GoesOn).stuck
    ((_, _, offset, end, *_),) = history.run(Ends).stuck
    assert (offset, end) == (3, 6)


def test_a_batch_that_is_not_full_at_the_end_is_not_stuck():
    class Batches(Application):
        def process(self, records):
            self.batch = [*getattr(self, "batch", []), records]
            if sum(map(len, self.batch)) >= 5:
                for each in self.batch:
                    self.work(each)
                self.batch = []
                self.consumer.commit()

    outcome = History(members=1, topics={"orders": 1}, minutes=1).run(Batches)
    assert not outcome.stuck
    assert not outcome.lost


def test_records_are_lost_only_if_a_new_member_would_begin_after_them():
    class Collects(Application):
        def process(self, records):
            pass  # it has read them, but neither processed nor committed any

    class Skips(Collects):
        def on_partitions_assigned(self, partitions):
            for partition in partitions:
                self.consumer.seek(partition, 4)

    history = History(members=1, topics={"orders": 1}, minutes=1)
    assert not history.run(Collects).lost
    assert [item[:4] for item in history.run(Skips).lost] == [("orders", 0, 0, 3)]


@pytest.mark.parametrize("method", ["process", "on_partitions_assigned", "on_partitions_revoked"])
def test_an_async_method_is_refused(method):
    async def never_awaited(self, *_):
        pass

    application = type("Async", (Application,), {method: never_awaited})
    with pytest.raises(ArgumentError, match=rf"^{method} of the application is async: make it a"):
        History(members=1, minutes=1).run(application)


def test_an_application_that_never_waits_is_stopped():
    class Busy(Application):
        def process(self, records):
            self.consumer.seek_to_beginning()

    with pytest.raises(CoterieError, match="more than 20000 steps"):
        History(members=1, topics={"orders": 1}, minutes=1).run(Busy)


class PollsWithoutATimeout(Application):
    def process(self, records):
        while True:
            with suppress(Exception):  # which must not hide the error
                self.consumer.poll(0)


class NeverWaits(Application):
    poll_timeout_ms = 0

    def process(self, records):
        pass


class WaitsByTheClock(Application):
    def process(self, records):
        until_ms = now_ms() + 1000
        while now_ms() < until_ms:
            self.consumer.assignment()


@pytest.mark.parametrize(
    ("application", "called"),
    [
        (PollsWithoutATimeout, "poll"),
        (WaitsByTheClock, "assignment, now_ms"),
        (NeverWaits, "poll"),
    ],
)
def test_a_loop_in_which_no_time_passes_is_an_error_with_its_member_time_and_calls(
    application, called
):
    history = History(members=1, topics={"orders": 1}, minutes=1, processing_ms=0)
    with pytest.raises(CoterieError) as raised:
        history.run(application)
    found = re.match(
        rf"member-0 has made {MOST_CALLS} calls at (\d+) ms \({called}\), ", str(raised.value)
    )
    notes = history.run(Application)._ledger.notes
    first = {NeverWaits: "started"}.get(application, "commit")
    assert int(found[1]) == next(note.at_ms for note in notes if note.kind == first)


class CommitsUntilItSucceeds(Application):
    def process(self, records):
        for _ in records:
            while True:
                with suppress(BaseException):  # the end of the program, too
                    self.consumer.commit()
                    break


class SleepsInAThread(Application):
    def on_partitions_assigned(self, partitions):
        run_in_thread(self.sleep)

    def sleep(self):
        while True:
            with suppress(BaseException):
                sleep(1000)


@pytest.mark.parametrize(
    ("application", "name", "during"),
    [(CommitsUntilItSucceeds, "member-0", "commit"), (SleepsInAThread, "member-0 thread", None)],
)
def test_a_dead_program_that_catches_its_end_is_an_error_with_its_name(application, name, during):
    crash = Crash(at_ms=30_000, during=during)
    history = History(members=2, topics={"orders": 2}, minutes=2, events=(crash,))
    with pytest.raises(CoterieError, match=f"^{name} is dead, but its program goes on"):
        history.run(application)


def test_what_an_application_raises_reaches_the_test():
    class Broken(Application):
        def process(self, records):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        History(members=1, minutes=1).run(Broken)


def test_a_wrong_setting_is_named():
    with pytest.raises(ConfigError, match=r"max\.poll\.record.*did you mean 'max\.poll\.records'"):
        History(settings={"max.poll.record": 1}).run(Application)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"members": 0}, "members"),
        ({"members": (3, 2)}, "members"),
        ({"topics": {}}, "topics must map topics to partition counts"),
        ({"events": ["Crush"]}, "events: 'Crush' is none of Crash, Close"),
        ({"minutes": 0}, "minutes"),
        ({"processing_ms": (1, 2, 3)}, "processing_ms must be a number or a pair"),
    ],
)
def test_a_wrong_option_is_named(option, message):
    with pytest.raises(ArgumentError, match=message):
        histories(**option)


def test_the_smallest_failing_history_is_shown_with_its_timeline():
    @settings(max_examples=300, derandomize=True, database=None)
    @given(histories(1, {"orders": 2}, minutes=1, events=["Crash"]))
    def finds(history):
        outcome = history.run(CommitsFirst)
        assert not outcome.lost

    with pytest.raises(AssertionError) as caught:
        finds()
    notes = "\n".join(caught.value.__notes__)
    assert "never processed; member-0 committed past it at" in notes
    assert "event: Crash(at_ms=" in notes
    assert "on_partitions_assigned: orders 0 1" in notes
    assert "owners\n  orders-" in notes
    assert "\nHistory(" in notes


def test_the_report_of_a_test_without_hypothesis_has_the_timeline(pytester):
    pytester.makepyfile(
        """
        from coterie.histories import Crash, History
        from support.histories.mistakes import CommitsFirst

        def test_it():
            crash = Crash(at_ms=0, during="processing")
            history = History(members=1, topics={"orders": 1}, minutes=1, events=(crash,))
            assert not history.run(CommitsFirst).lost

        def test_what_the_store_has():
            outcome = History(members=1, topics={"orders": 1}, minutes=1).run(CommitsFirst)
            assert outcome.store == {"orders": "all"}

        def test_another_that_fails_for_another_reason():
            assert False
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    lines = ["*- history -*", "orders-0@* never processed; *", "*event: Crash*"]
    result.stdout.fnmatch_lines(lines)
    assert result.stdout.str().count("- history -") == 2


def answers_of_a_run(history, monkeypatch):
    """What the coordinator of a run answers to the requests that its trace has, and the trace."""
    answers = []

    def observed(config, now_ms, *, on_event, **options):
        def observe(event):
            if isinstance(event, Response):
                answers.append(event.as_dict())
            on_event(event)

        return GroupCoordinator(config, now_ms, on_event=observe, **options)

    monkeypatch.setattr(tracing, "GroupCoordinator", observed)
    lines = [json.loads(line) for line in history.trace(Application)]
    left_out = {line["left_out"].get("id") for line in lines if "left_out" in line}
    return [answer for answer in answers if answer["id"] not in left_out], lines


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_trace_of_a_run_gives_the_same_answers(protocol, monkeypatch):
    settings = {"group.protocol": protocol}
    long_load = Failover(at_ms=60_000, load_ms=59_000)  # longer than sessions
    drawn = [random_history(seed, minutes=3, settings=settings) for seed in range(12)]
    for history in [History(2, minutes=3, events=(long_load,), settings=settings), *drawn]:
        answers, lines = answers_of_a_run(history, monkeypatch)
        came = [line for line in coterie.run_trace(lines) if line["event"] == "response"]
        assert came == answers
        assert len(came) > 20


def test_a_trace_has_names_as_they_are():
    lines = History(1, minutes=1, settings={"group.id": "gr\u00fc\u00dfe"}).trace(Application)
    assert any("gr\u00fc\u00dfe" in line for line in lines)


def test_a_trace_says_what_it_has_for_a_failover_that_takes_time():
    history = History(1, minutes=1, events=(Failover(at_ms=20_000, load_ms=12_000),))
    header = json.loads(history.trace(Application)[0])
    assert header["doc"].startswith(
        "Not all that happened: from 20000 to 32000 ms the coordinator had resigned or was "
        "loading, for which a trace has no op: a failover stands for it at either end and every "
        "5000 ms, and "
    )


def test_a_timeline_fits_the_terminal_that_shows_the_report(monkeypatch):
    outcome = PAUSED.run(Application)
    reporting.report(outcome, [])
    assert reporting.latest.take() == outcome.timeline()
    monkeypatch.setattr(terminal, "report_width", 60)
    reporting.report(outcome, [])
    shown = reporting.latest.take()
    assert shown.split() == outcome.timeline().split()
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 60 < max(map(len, outcome.timeline().splitlines()))


def test_the_page_has_the_owners_and_the_events():
    page = PAUSED.html(Application)
    assert "Pause(at_ms=61000, pause_ms=50000)" in page
    assert '"orders' not in page
    assert '"records/0"' in page
    assert "on_partitions_revoked" in page


def test_the_page_on_testing_shows_what_its_history_prints():
    page = "testing-histories.md"
    (code,) = (code for code in blocks(page, "python") if "def test_no_record" in code)
    names = {}
    exec(code.replace("    test_no_record_is_lost()", "    pass"), names)
    outcome = names["outcome"]
    assert outcome.timeline(outcome.lost) + "\n" in blocks(page, "text")
