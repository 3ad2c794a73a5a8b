"""Histories of programs for real clients: the loop of a README, and what goes wrong in it."""

import asyncio
import queue
import signal
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from coterie.errors import ArgumentError, CoterieError
from coterie.histories import (
    Crash,
    Cut,
    FailWrite,
    History,
    Restart,
    RollingDeploy,
    processed,
    random_history,
    store,
)
from coterie.testing import confluent, virtual_clients

SETTINGS = {"bootstrap.servers": "broker:9092", "group.id": "mine", "auto.offset.reset": "earliest"}


def loop(settings, handle, poll_s=1.0):
    """The loop of the README of confluent-kafka."""
    from confluent_kafka import Consumer

    consumer = Consumer(SETTINGS | settings)
    consumer.subscribe(["records"])
    try:
        while True:
            message = consumer.poll(poll_s)
            if message is not None and not message.error():
                handle(consumer, message)
    finally:
        consumer.close()


def as_in_the_readme():
    """A message is stored when it is returned: it may be committed before it is processed."""
    loop({}, lambda consumer, message: processed(message))


def corrected():
    """A message is stored when it has been processed."""

    def handle(consumer, message):
        processed(message)
        store()[message.value()] = time.time()
        consumer.store_offsets(message)

    loop({"enable.auto.offset.store": False}, handle)


LONG = {"members": 1, "topics": {"records": 1}, "minutes": 2, "processing_ms": 20_000}
CRASH = (Crash(at_ms=30_000, during="processing"),)


def test_a_crash_shows_the_record_that_the_loop_commits_before_it_processes_it():
    outcome = History(**LONG, events=CRASH).run(program=as_in_the_readme)
    (item,) = outcome.lost
    text = outcome.timeline([item])
    sent = next(at for at, line in enumerate(text.splitlines()) if "committed records-0" in line)
    assert any("crashed" in line for line in text.splitlines()[sent:])


def test_the_corrected_loop_loses_nothing_in_any_history():
    outcome = History(**LONG, events=CRASH).run(program=corrected)
    assert not outcome.lost
    assert not outcome.stuck
    assert outcome.store
    for seed in range(12):
        outcome = random_history(seed, minutes=3).run(program=corrected)
        assert (outcome.lost, outcome.stuck) == ([], []), seed


def kafka_python_loop(*, polls):
    from kafka import KafkaConsumer

    with KafkaConsumer("records", group_id="mine", auto_offset_reset="earliest") as consumer:
        for message in () if polls else consumer:
            processed(message)
        while polls:
            for records in consumer.poll(1000).values():
                for message in records:
                    processed(message)


@pytest.mark.parametrize("polls", [False, True])
def test_a_loop_of_kafka_python_loses_nothing_in_any_history(polls):
    for seed in range(12):
        outcome = random_history(seed, minutes=3).run(
            program=lambda: kafka_python_loop(polls=polls)
        )
        assert (outcome.lost, outcome.stuck) == ([], []), seed


def test_a_program_whose_thread_has_died_is_stuck_though_its_consumer_is_at_the_end():
    def main():
        waiting = queue.Queue()

        def work():
            for consumer, message in iter(waiting.get, None):
                if message.offset() == 3:
                    raise ValueError
                processed(message)
                consumer.commit(message)

        threading.Thread(target=work, daemon=True).start()
        loop({"enable.auto.commit": False}, lambda *each: waiting.put(each))

    outcome = History(members=1, topics={"records": 1}, minutes=2).run(program=main)
    assert [item[:4] for item in outcome.stuck] == [("records", 0, 3, 12)]
    assert "a thread died: ValueError" in outcome.timeline()


def test_a_deploy_to_settings_that_the_library_of_a_program_lacks_is_skipped():
    deploys = tuple(
        RollingDeploy(at_ms=at_ms, assignor=assignor, protocol=protocol)
        for at_ms, assignor, protocol in ((10_000, None, "consumer"), (20_000, "sticky", None))
    )
    history = History(members=1, topics={"records": 1}, minutes=1, events=deploys)
    skipped = history.run(program=lambda: kafka_python_loop(polls=True)).skipped
    assert [note.at_ms for note in skipped] == [10_000]
    skipped = history.run(program=as_in_the_readme).skipped
    assert [note.at_ms for note in skipped] == [20_000]


def test_a_producer_of_a_program_writes_transactions_and_has_the_faults_of_its_member():
    def copy():
        from confluent_kafka import Producer, TopicPartition

        producer = Producer({"transactional.id": "t"})
        producer.init_transactions()

        def handle(consumer, message):
            processed(message)
            producer.begin_transaction()
            producer.produce("out", message.value())
            after = TopicPartition("records", message.partition(), message.offset() + 1)
            producer.send_offsets_to_transaction([after], consumer.consumer_group_metadata())
            producer.commit_transaction()

        loop({"enable.auto.commit": False}, handle)

    cut = Cut(at_ms=30_000, lasts_ms=5000, during="processing")
    history = History(
        1, {"records": 1}, 1, events=(cut,), outputs={"out": 1}, records_per_minute=20
    )
    outcome = history.run(program=copy)
    assert len(outcome.outputs["out"]) == 20
    written_ms = [record.timestamp for record in outcome.outputs["out"]]
    assert max(b - a for a, b in pairwise(written_ms)) >= 5000
    assert not outcome.lost


def test_the_timeline_names_the_record_whose_write_failed():
    history = History(**{**LONG, "events": (FailWrite(at_ms=30_000),)})
    assert "write failed: records-0@" in history.run(program=as_in_the_readme).timeline()


def test_an_exception_that_a_client_led_to_ends_the_member_and_others_the_run():
    def program(wrong):
        def handle(consumer, message):
            processed(message)
            try:
                consumer.seek(wrong)
            except Exception as error:
                raise LookupError("wrapped") from error

        loop({}, handle)

    once = {"members": 1, "topics": {"records": 1}, "minutes": 1}
    nowhere = confluent.TopicPartition("nowhere", 0, 0)
    assert History(**once).run(program=lambda: program(nowhere)).errors
    with pytest.raises(LookupError):
        History(**once).run(program=lambda: program(None))


@pytest.mark.parametrize("handled", [False, True])
def test_a_restart_is_a_signal_and_the_program_leaves_the_group(handled):
    ended = []

    def main():
        going = [True]
        if handled:
            signal.signal(signal.SIGTERM, lambda *_: going.pop())
        from confluent_kafka import Consumer

        consumer = Consumer(SETTINGS)
        consumer.subscribe(["records"])
        try:
            while going:
                consumer.poll(1.0)
                time.sleep(0.1)
        except KeyboardInterrupt:
            ended.append("KeyboardInterrupt")
        else:
            ended.append("handled")
        finally:
            consumer.close()

    history = History(members=1, minutes=1, events=(Restart(at_ms=20_000),))
    before = signal.getsignal(signal.SIGTERM)
    kinds = [note.kind for note in history.run(program=main)._ledger.notes]
    assert signal.getsignal(signal.SIGTERM) is before
    assert ended == ["handled" if handled else "KeyboardInterrupt"] * 2  # and one at the end
    assert kinds.count("started") == kinds.count("leave") == kinds.count("closed") == 2


def test_the_same_history_is_the_same_and_has_a_trace_and_a_page():
    history = random_history(3, minutes=2)
    notes = [history.run(program=corrected)._ledger.notes for _ in range(2)]
    assert repr(notes[0]) == repr(notes[1])
    assert "member-0" in history.html()
    assert len(history.trace()) > 10


SCRIPT = """
from confluent_kafka import Consumer
from confluent_kafka.error import KafkaError
from coterie.histories import processed, store

members = store().setdefault("members", [])
seen = []  # of this process


def main():
    consumer = Consumer({"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["records"])
    members.append(seen)
    try:
        while True:
            message = consumer.poll(1.0)
            if message and message.error() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                processed(message)
                seen.append(message.offset())
    except KeyboardInterrupt:
        consumer.close()


if __name__ == "__main__":
    main()
"""


def test_a_script_has_globals_of_its_own_in_each_member(tmp_path):
    path = tmp_path / "application.py"
    path.write_text(SCRIPT)
    outcome = History(members=2, topics={"records": 2}, minutes=1).run(program=path)
    assert [len(seen) for seen in outcome.store["members"]] == [6, 6]
    with pytest.raises(ArgumentError, match=r"program: .*nothing\.py"):
        History().run(program=tmp_path / "nothing.py")


def test_a_program_that_polls_every_50_ms_for_half_an_hour_in_vain_is_stuck():
    def main():
        loop({"enable.auto.commit": False}, lambda *_: None, poll_s=0.05)

    outcome = History(members=1, topics={"records": 1}, minutes=1).run(program=main)
    assert [item[:4] for item in outcome.stuck] == [("records", 0, 0, 6)]


def test_a_program_that_swallows_its_end_is_an_error_with_its_member():
    def main():
        while True:
            with suppress(BaseException):
                as_in_the_readme()
            until_s = time.monotonic() + 1
            while time.monotonic() < until_s:
                pass

    crash = Crash(at_ms=30_000)
    with pytest.raises(CoterieError, match=r"member-0 (is dead|has made)"):
        History(members=1, topics={"records": 1}, minutes=1, events=(crash,)).run(program=main)


def test_an_async_program_is_refused():
    async def main(): ...

    with pytest.raises(ArgumentError, match=r"^program is async"):
        History(members=1, minutes=1).run(program=main)
    asyncio.run(main())  # outside of a history


async def aiokafka_loop(**settings):
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(
        "records", group_id="mine", auto_offset_reset="earliest", **settings
    ) as consumer:
        async for message in consumer:
            await asyncio.to_thread(processed, message)
            if settings:
                await consumer.commit()


def test_aiokafka_commits_a_message_while_it_is_processed_unless_the_program_commits():
    run = History(**LONG, events=CRASH).run
    assert len(run(program=lambda: asyncio.run(aiokafka_loop())).lost) == 1
    for history in (
        History(**LONG, events=CRASH),
        *(random_history(n, minutes=3) for n in range(6)),
    ):
        outcome = history.run(program=lambda: asyncio.run(aiokafka_loop(enable_auto_commit=False)))
        assert (outcome.lost, outcome.stuck) == ([], []), history


@pytest.mark.parametrize("handled", [False, True])
def test_a_restart_ends_the_event_loop_as_a_signal_does(handled):
    ended = []

    async def work():
        stopped = asyncio.Event()
        if handled:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        try:
            await stopped.wait()
            ended.append("handled")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    def main():
        with suppress(KeyboardInterrupt):
            asyncio.run(work())

    History(members=2, minutes=1, events=(Restart(at_ms=20_000),)).run(program=main)
    assert ended == ["handled" if handled else "cancelled"] * 4  # twice each member


def test_what_is_neither_an_application_nor_a_program_is_refused():
    for arguments in ({}, {"application": object, "program": corrected}):
        with pytest.raises(ArgumentError, match="an application or a program"):
            History().run(**arguments)


def test_processed_does_nothing_outside_of_a_history():
    from coterie.testing import Cluster

    cluster = Cluster({"records": 1})
    processed(None)
    with virtual_clients(cluster):
        processed(None)
    assert cluster.now_ms == 0
