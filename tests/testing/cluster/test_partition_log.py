"""The log of a simulated partition, against a list to which each record is appended in turn."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie import ArgumentError
from coterie.testing.topics import PartitionLog, Topic, TopicPartition, partition_of
from support.examples import examples

PRODUCERS = (5, 6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 9), st.none() | st.integers(1, 20)),
        st.tuples(st.just("append"), st.sampled_from([None, *PRODUCERS])),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("pass"), st.integers(1, 40)),
    ),
    max_size=12,
)
TWO_RATES = [("produce", 1, 5), ("pass", 20), ("produce", 3, 7), ("pass", 20)]


class Model:
    """All records of a log: (timestamp, value, producer id, kind), by their offsets."""

    def __init__(self):
        self.now_ms, self.records, self.open, self.phase = 0, [], {}, None
        self.aborted = set()  # offsets

    def step(self, what, *details):
        getattr(self, f"_{what}")(*details)

    def _pass(self, ms):
        for _ in range(ms):
            self.now_ms += 1
            if self.phase is not None:
                first_ms, interval_ms = self.phase
                if self.now_ms >= first_ms and (self.now_ms - first_ms) % interval_ms == 0:
                    number = sum(kind == "generated" for *_, kind in self.records)
                    self.records.append((self.now_ms, f"t-3-{number}", None, "generated"))

    def _produce(self, wait_ms, interval_ms):
        self.phase = None if interval_ms is None else (self.now_ms + wait_ms, interval_ms)

    def _append(self, producer):
        if producer is not None:
            self.open.setdefault(producer, len(self.records))
        self.records.append((self.now_ms, f"own {len(self.records)}", producer, "appended"))

    def _end(self, producer, committed):
        first = self.open.pop(producer, None)
        if first is not None:
            if not committed:
                mine = (n for n in range(first, len(self.records))
                        if self.records[n][2] == producer)  # fmt: skip
                self.aborted.update(mine)
            self.records.append((self.now_ms, None, producer, "marker"))

    def stable(self):
        return min([len(self.records), *self.open.values()])

    def seen(self, offset, committed):
        return self.records[offset][3] != "marker" and not (committed and offset in self.aborted)


def played(steps):
    """The log and the model after the steps."""
    log, model = PartitionLog("t", 3), Model()
    for what, *details in steps:
        if what == "produce":
            wait_ms, interval_ms = details
            log.produce(model.now_ms + wait_ms, interval_ms, model.now_ms)
        elif what == "append":
            value = f"own {len(model.records)}"
            offset = log.append(model.now_ms, "key", value, details[0])
            assert offset == len(model.records)
        elif what == "end":
            log.end_transaction(model.now_ms, details[0], committed=details[1])
        model.step(what, *details)
    return log, model


@settings(max_examples=examples(100))
@given(STEPS, st.integers(1, 5), st.booleans())
@example(TWO_RATES, 5, False)
def test_a_log_gives_what_a_list_of_all_records_gives(steps, most, committed):
    log, model = played(steps)
    now_ms, end = model.now_ms, len(model.records)
    assert log.end_offset(now_ms) == end
    assert log.last_stable_offset(now_ms) == model.stable()
    assert [log.timestamp(n) for n in range(end)] == [at_ms for at_ms, *_ in model.records]
    assert log.offsets(end) == [n for n in range(end) if model.seen(n, committed=True)]
    for offset in range(end + 1):
        records, after = log.read(offset, end, most, committed=committed)
        shown = [n for n in range(offset, end) if model.seen(n, committed)][:most]
        assert [(r.topic, r.partition, r.offset, r.timestamp, r.value) for r in records] == [
            ("t", 3, n, *model.records[n][:2]) for n in shown
        ]
        assert after == (shown[-1] + 1 if len(shown) == most else end)


@settings(max_examples=examples(50))
@given(STEPS)
@example(TWO_RATES)
def test_a_time_finds_the_first_record_that_is_not_before_it(steps):
    log, model = played(steps)
    end = len(model.records)
    for at_ms in range(model.now_ms + 2):
        later = [(n, r[0]) for n, r in enumerate(model.records) if r[0] >= at_ms]
        assert log.offset_for_time(at_ms, end) == (later[0] if later else None)
    if end:
        log.log_start_offset = end - 1
        assert log.offset_for_time(0, end) == (end - 1, model.records[-1][0])


@settings(max_examples=examples(50))
@given(STEPS, st.integers(1, 30))
def test_the_next_record_of_the_rate_is_the_one_that_comes(steps, ms):
    log, model = played(steps)
    next_ms = log.next_record_ms(model.now_ms)
    count = len(model.records)
    model.step("pass", ms)
    came = [at_ms for at_ms, *_ in model.records[count:]]
    if came:
        assert next_ms == came[0]
    else:
        assert next_ms is None or next_ms > model.now_ms
    for past_ms in range(model.now_ms - ms, model.now_ms + 1):
        assert log.end_offset(past_ms) == count + sum(at_ms <= past_ms for at_ms in came)


def test_what_was_appended_later_is_not_in_the_log_of_an_earlier_time():
    log = PartitionLog("t", 0)
    log.produce(10, 10, 0)
    for now_ms in (15, 15, 27):
        log.append(now_ms, None, "own")
    ends = {9: 0, 10: 1, 14: 1, 15: 3, 19: 3, 20: 4, 26: 4, 27: 5, 30: 6}
    assert {at_ms: log.end_offset(at_ms) for at_ms in ends} == ends


def test_an_abort_hides_the_records_of_its_producer_between_its_first_one_and_its_marker():
    log = PartitionLog("t", 0)
    for value, producer in (("before", None), ("a1", 5), ("b1", 6), ("a2", 5)):
        log.append(1, None, value, producer)
    log.end_transaction(2, 5, committed=False)
    log.append(3, None, "a3", 5)
    assert log.last_stable_offset(3) == 2
    log.end_transaction(4, 5, committed=True)
    log.end_transaction(4, 6, committed=True)
    log.end_transaction(4, 6, committed=True)  # nothing is open: no marker
    end = log.end_offset(4)
    assert end == 8
    shown, after = log.read(0, end, 100, committed=True)
    assert [(r.offset, r.value) for r in shown] == [(0, "before"), (2, "b1"), (5, "a3")]
    assert after == 8
    everything, _ = log.read(0, end, 100, committed=False)
    assert [r.offset for r in everything] == [0, 1, 2, 3, 5]


def test_partitions_take_turns_within_the_interval_and_added_ones_begin_when_they_come():
    topic = Topic("t", 4, 1000, 2000)
    firsts = [log.next_record_ms(1000) for log in topic.logs]
    assert firsts == [1500, 2000, 2500, 3000]
    topic.add_partitions(5, 10_000)
    assert [log.partition for log in topic.logs] == [0, 1, 2, 3, 4]
    assert topic.logs[4].next_record_ms(10_000) == 12_000
    topic.produce(3, 20_000)
    assert topic.interval_ms == 3
    assert [log.next_record_ms(20_000) for log in topic.logs] == [
        20_001, 20_001, 20_001, 20_002, 20_003,
    ]  # fmt: skip
    topic.produce(None, 20_010)
    assert {log.next_record_ms(20_010) for log in topic.logs} == {None}
    assert [log.end_offset(10**6) for log in topic.logs[3:]] == [9 + 3, 5 + 3]


@pytest.mark.parametrize("number", [0, 2**31 - 1])
def test_a_partition_is_a_pair_of_topic_and_int32(number):
    assert partition_of(("t", number)) == TopicPartition("t", number)


@pytest.mark.parametrize(
    "value", [("t", -1), ("t", 2**31), ("t",), ("t", 1, 2), ["t", 1], "t1", (1, "t"), ("t", True)]
)
def test_anything_else_is_no_partition(value):
    with pytest.raises(ArgumentError):
        partition_of(value)
