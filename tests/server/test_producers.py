"""Idempotent and transactional producers of a partition, by the rules of Kafka's own."""

import random

import pytest

from support.server.writing import everything, log, of_producer, offsets, refusal

MOST = 2**31 - 1


def test_sequences_go_on_one_by_one_and_a_new_epoch_begins_at_0():
    partition = log()
    partition.produce(of_producer(0, count=3))
    assert refusal(partition, of_producer(4)) == (45, True)
    assert refusal(partition, of_producer(2)) == (45, True)
    partition.produce(of_producer(3))
    assert refusal(partition, of_producer(4, epoch=1)) == (45, True)
    partition.produce(of_producer(0, epoch=1))
    assert refusal(partition, of_producer(4)) == (47, True)


@pytest.mark.parametrize("epoch", range(-1, 3))
def test_the_first_epoch_may_begin_anywhere_and_each_later_one_at_0(epoch):
    """Source: ProducerAppendInfo.checkSequence; -1 is no epoch (NO_PRODUCER_EPOCH)."""
    partition = log()
    partition.produce(of_producer(0, epoch=epoch))
    following = of_producer(1, epoch=epoch + 1)
    if epoch == -1:
        assert partition.produce(following).base_offset == 1
    else:
        assert refusal(partition, following) == (45, True)
        assert partition.produce(of_producer(0, epoch=epoch + 1)).base_offset == 1


def test_a_producer_that_is_not_known_may_begin_anywhere():
    partition = log()
    assert partition.produce(of_producer(500)).base_offset == 0
    partition.producers.forget(before_ms=1000)
    assert partition.produce(of_producer(70)).base_offset == 1


def test_sequences_begin_again_behind_the_last_number():
    partition = log()
    partition.produce(of_producer(MOST - 1, count=2))
    assert refusal(partition, of_producer(1)) == (45, True)
    assert partition.produce(of_producer(0)).base_offset == 2
    assert partition.produce(of_producer(MOST - 1, count=2)).base_offset == 0  # again
    partition = log()
    partition.produce(of_producer(MOST, count=3))
    assert partition.produce(of_producer(2)).base_offset == 3


def test_the_last_five_batches_are_answered_as_the_first_time_and_older_ones_refused():
    partition = log()
    for sequence in range(7):
        partition.produce(of_producer(sequence, time_ms=1000 + sequence))
    size = partition.size
    for sequence in range(2, 7):
        response = partition.produce(of_producer(sequence, time_ms=1000 + sequence))
        assert response == (sequence, 1000 + sequence, 0)
    assert partition.size == size
    assert refusal(partition, of_producer(1)) == (45, True)
    assert refusal(partition, of_producer(5, count=2)) == (45, True)


class Model:
    """What a partition says to a producer, from the whole history of what it wrote."""

    def __init__(self):
        self.epoch, self.written = -1, []

    def response(self, epoch, first, count):
        last = [each for each in self.written if each[0] == self.epoch]
        if epoch == self.epoch and (epoch, first, count) in [each[:3] for each in last[-5:]]:
            return next(each[3] for each in last[-5:] if each[:3] == (epoch, first, count))
        if epoch < self.epoch:
            return 47
        following = last[-1][1] + last[-1][2] if last and epoch == self.epoch else 0
        if self.epoch != -1 and first != following:
            return 45
        offset = sum(each[2] for each in self.written)
        self.epoch = epoch
        self.written.append((epoch, first, count, -offset))
        return -offset


@pytest.mark.parametrize("seed", range(20))
def test_random_writes_are_told_what_the_whole_history_says(seed):
    draw = random.Random(seed)
    partition, model = log(), Model()
    for _ in range(200):
        last = model.written[-1] if model.written else (0, 0, 0, 0)
        epoch = max(model.epoch, 0) + draw.choice((0, 0, 0, 0, 0, 0, 0, 1, -1))
        following = last[1] + last[2] if epoch == model.epoch else 0
        first = max(following + draw.choice((0, 0, 0, 0, -1, -2, 1)), 0)
        count = draw.choice((1, 1, 1, 2))
        wanted = model.response(max(epoch, 0), first, count)
        data = of_producer(first, epoch=max(epoch, 0), count=count)
        if wanted > 0:
            assert refusal(partition, data) == (wanted, True)
        else:
            assert partition.produce(data).base_offset == -wanted


def test_committed_reads_end_where_the_first_open_transaction_begins():
    partition = log()
    partition.produce(of_producer(0, producer_id=1))
    partition.produce(of_producer(0, producer_id=2, transactional=True))
    partition.produce(of_producer(0, producer_id=3, transactional=True))
    partition.produce(of_producer(1, producer_id=1))
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 4)
    assert offsets(everything(partition, 0, committed=True).records) == [0]
    partition.append_marker(3, 0, 0, False, 2000)
    assert partition.last_stable_offset == 1
    partition.append_marker(2, 0, 0, True, 2000)
    assert partition.last_stable_offset == partition.high_watermark == 6
    assert partition.aborted(0, 6) == [(3, 2, 4)]
    assert partition.aborted(5, 6) == []
    assert partition.aborted(0, 2) == []


def test_a_transaction_is_one_from_its_first_record_to_its_marker():
    partition = log()
    assert not partition.has_ongoing_transaction(2)
    partition.produce(of_producer(0, producer_id=2, transactional=True))
    assert partition.has_ongoing_transaction(2)
    assert refusal(partition, of_producer(1, producer_id=2)) == (48, True)
    partition.append_marker(2, 0, 0, True, 2000)
    assert not partition.has_ongoing_transaction(2)
    assert partition.produce(of_producer(1, producer_id=2)).base_offset == 2


def test_a_marker_of_an_old_epoch_or_coordinator_is_refused():
    partition = log()
    partition.produce(of_producer(0, producer_id=2, epoch=3, transactional=True))
    assert int(partition.append_marker(2, 2, 5, True, 1)) == 47
    assert int(partition.append_marker(2, 4, 5, False, 1)) == 0  # who fences, aborts
    assert int(partition.append_marker(2, 4, 4, False, 1)) == 52
    assert refusal(partition, of_producer(1, producer_id=2, epoch=3, transactional=True)) == (
        47, True,
    )  # fmt: skip
    assert partition.aborted(0, 9) == [(2, 0, 1)]


def test_a_marker_without_a_transaction_changes_no_end_and_aborts_nothing():
    partition = log()
    assert int(partition.append_marker(2, 0, 0, False, 1)) == 0
    assert partition.last_stable_offset == 1
    assert partition.aborted(0, 9) == []


def test_who_wrote_nothing_for_long_is_forgotten_but_not_in_a_transaction():
    partition = log()
    partition.produce(of_producer(0, producer_id=1, time_ms=1000))
    partition.produce(of_producer(0, producer_id=2, time_ms=1001))
    partition.produce(of_producer(0, producer_id=3, time_ms=1, transactional=True))
    partition.producers.forget(before_ms=1000)
    assert sorted(partition.producers.known) == [2, 3]


def test_a_coordinator_of_epoch_minus_1_fences_none():
    """WriteTxnMarkers has the epoch as int32, and a marker keeps it."""
    partition = log()
    for coordinator_epoch in (-1, 0):
        assert int(partition.append_marker(2, 0, coordinator_epoch, True, 1)) == 0
    assert int(partition.append_marker(2, 0, -1, True, 1)) == 52


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
@pytest.mark.parametrize(
    ("is_open", "epoch", "marker_epoch", "is_refused"),  # below version 2, and from it on
    [
        (True, 5, 4, (True, True)),
        (True, 5, 5, (False, True)),
        (True, 5, 6, (False, False)),
        (True, 32767, 32767, (False, False)),  # no higher epoch is left
        (False, 5, 4, (True, True)),
        (False, 5, 5, (False, False)),  # a marker that is sent again
        (False, 5, 6, (False, False)),
    ],
)
def test_a_marker_of_version_2_has_a_higher_epoch_than_its_transaction(
    is_open, epoch, marker_epoch, is_refused, transaction_version
):
    partition = log()
    partition.produce(of_producer(0, epoch=epoch, transactional=is_open))
    error = partition.append_marker(7, marker_epoch, 0, True, 1, transaction_version)
    assert (int(error) == 47) is is_refused[transaction_version == 2]
