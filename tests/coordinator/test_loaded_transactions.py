"""What a load makes of transactions in a log, beside plain commits and tombstones.

Rules: docs/rules/offsets.md#load, docs/rules/consumer-groups.md#offsets;
OffsetMetadataManager.java (replay, replayEndTransactionMarker).
"""

import pytest

from coterie import Batch, Error, GroupCoordinator
from support.log_writer import commit_key, commit_value

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
KEY = commit_key(1, b"g", b"t", 0)
GONE = -1


def log_of(text):
    """A log of words. In a transaction of producer 7 ``p7=5`` commits offset 5 and ``p7=x`` is a
    tombstone; ``p7+`` commits it, ``p7-`` aborts it. ``5`` is a plain commit, ``x`` a tombstone."""
    for place, word in enumerate(text.split(), 10):
        producer = int(word[1]) if word[0] == "p" else -1
        value = word[2:].lstrip("=") if word[0] == "p" else word
        control = value in ("+", "-")
        if control:
            record = (COMMIT if value == "+" else ABORT, bytes(6))
        elif value == "x":
            record = (KEY, None)
        else:
            record = (KEY, commit_value(int(value), -1, b"", 1_000))
        yield Batch(place, producer, min(producer, 0), producer >= 0, control, (record,))


def loaded(behaviour, text):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, log=log_of(text))
    assert coordinator.load_error is None
    return coordinator


def offset_of(coordinator):
    return coordinator.offset_fetch("g", {"t": [0]})["t", 0].offset


@BEHAVIOURS
@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("p7=5 6 p7+", 6), ("6 p7=5 p7+", 5), ("6 p7=5 p7-", 6), ("p7=5 p7-", GONE),
        ("p7=5 p7=6 p7+", 6), ("p7=5 p7+ p7=6 p7-", 5), ("p7=5 p7+ p7=6 p7+", 6),
        ("p7=5 p8=6 p8+ p7+", 6), ("p7=5 p8=6 p7+ p8+", 6), ("p7=5 p8=6 p7+ p8-", 5),
        ("p7=5 p8+", GONE), ("p7+ p7=5", GONE), ("5 x", GONE), ("5 x 6", 6), ("6 5", 5),
        ("p7=5 p7=x p7+", GONE), ("6 p7=x p7+", 6), ("p7=5 p7+ x", GONE),
    ],
)  # fmt: skip
def test_the_later_record_counts_whenever_it_was_decided(behaviour, text, offset):
    if behaviour == "4.1" and text == "6 p7=x p7+":
        offset = GONE  # since Kafka 4 a tombstone removes whatever there is
    assert offset_of(loaded(behaviour, text)) == offset


@pytest.mark.parametrize(("behaviour", "offset"), [("2.4", 5), ("3.9", 5), ("4.1", GONE)])
def test_a_tombstone_removes_what_is_undecided_since_kafka_4(behaviour, offset):
    assert offset_of(loaded(behaviour, "p7=5 x p7+")) == offset


@BEHAVIOURS
@pytest.mark.parametrize("committed", [True, False])
def test_what_no_marker_decides_in_the_log_is_unstable_until_one_comes(behaviour, committed):
    coordinator = loaded(behaviour, "6 p7=5 p8=4 p8-")
    stable = coordinator.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert stable["t", 0].error is Error.UNSTABLE_OFFSET_COMMIT
    assert offset_of(coordinator) == 6
    assert coordinator._core.open_transactions == {7: ["g"]}
    coordinator.end_txn(7, committed=committed)
    stable = coordinator.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert (stable["t", 0].error, stable["t", 0].offset) == (Error.NONE, 5 if committed else 6)
    assert coordinator._core.open_transactions == {}
