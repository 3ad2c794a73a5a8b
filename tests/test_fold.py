"""The fold against Kafka's own state of the golden logs, in every mode."""

import base64
import json

import pytest

from coterie import CoterieError, PartialState, ScanOptions, merge, scan
from golden_data import LOGS, cases, corrupt_cases, segments

CLASSIC = [case for case in cases() if case != "kip848"]


def plain(value):
    """As JSON has it: bytes are base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def replay(case, **options):
    chosen = ScanOptions(**options)
    pieces = [
        scan(path.read_bytes(), partition=partition_of(path), file=path.name, options=chosen)
        for path in segments(case)
    ]
    return merge(pieces) if pieces else PartialState(chosen)


def partition_of(path):
    return int(path.parent.name.rpartition("-")[2])


def golden(path):
    return json.loads(path.read_text())["groups"]


def fields_of_kafka(rows, expected):
    names = expected[0] if expected else ()
    return [{name: row[name] for name in names} for row in plain(rows)]


@pytest.mark.parametrize("case", CLASSIC)
def test_state_equals_kafkas_own_loader(case):
    expected = golden(LOGS / case / "groups.json")
    assert fields_of_kafka(replay(case).groups(), expected) == expected


@pytest.mark.parametrize("case", corrupt_cases())
@pytest.mark.parametrize(
    ("on_fault", "answer"), [("load", "groups.json"), ("recover", "groups-recovered.json")]
)
def test_damaged_logs_give_what_kafka_loads(case, on_fault, answer):
    folder = LOGS / "corrupt" / case
    expected = golden(folder / answer)
    state = replay(f"corrupt/{case}", on_fault=on_fault)
    assert fields_of_kafka(state.groups(), expected) == expected


@pytest.mark.parametrize("case", corrupt_cases())
def test_the_fault_is_reported_once_at_its_place(case):
    folder = LOGS / "corrupt" / case
    told = json.loads((folder / "expect.json").read_text())
    faults = [f for fold in replay(f"corrupt/{case}").partitions.values() for f in fold.faults]
    harmless = {
        "fine",
        "key-bad-utf8",
        "key-negative-version",
        "key-unknown-version",
        "missing-batch",
        "offset-goes-back",
        "value-bad-utf8",
        "value-trailing-bytes",
    }
    if case in harmless:
        assert faults == []
        return
    at_place = [f for f in faults if f[1] == told["fault_position"]]
    assert [(f[1], f[2]) for f in at_place] == [(told["fault_position"], told["fault_base_offset"])]
    # A wrong length that leads into the middle of a batch is followed by what stands there.
    assert len(faults) == (2 if case in {"length-below-v2-header", "length-one-more"} else 1)


@pytest.mark.parametrize("case", ["basic", "transactions", "compacted", "old-formats"])
def test_a_state_survives_its_bytes(case):
    state = replay(case)
    again = PartialState.from_bytes(state.to_bytes())
    assert again.groups() == state.groups()


def test_stop_stops_at_the_first_fault():
    state = replay("corrupt/magic-3", on_fault="stop")
    (fold,) = state.partitions.values()
    assert fold.stopped
    assert len(fold.faults) == 1


def test_states_of_different_options_do_not_merge():
    with pytest.raises(CoterieError, match="different options"):
        merge([PartialState(), PartialState(ScanOptions(history=True))])


@pytest.mark.parametrize("size", [12, 16, 17, 60])
def test_zeros_at_the_end_are_a_tail_to_the_loader_too(size):
    (segment,) = segments("corrupt/fine")
    data = segment.read_bytes()
    (fold,) = scan(data + bytes(size), options=ScanOptions(on_fault="load")).partitions.values()
    assert [fault[1:4] for fault in fold.faults] == [(len(data), None, "tail")]
    assert fold.failed
