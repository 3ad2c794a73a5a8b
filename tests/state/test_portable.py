"""Serialized states carry a version, and only the same version reads them."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie import CorruptData, CoterieError, PartialState
from coterie._core.fold.fold import dump, restore
from coterie._core.fold.history import GroupLog
from coterie.state import pickling
from coterie.state.local_replay import scan_state
from coterie.state.replay_engine import Silent
from support import golden_data


@pytest.fixture
def data():
    options = coterie.ScanOptions(history=True, groups=frozenset(["grp-aio-range"]))
    return scan_state((str(golden_data.log("basic")),), options, Silent()).to_bytes()


@pytest.mark.parametrize(
    ("older", "said"), [("0.0.9/1", "coterie 0.0.9/1"), (f"{coterie.__version__}/0", "/0 came")]
)
def test_a_state_of_another_version_or_form_is_refused_in_one_line(monkeypatch, older, said):
    with monkeypatch.context() as then:
        then.setattr(pickling, "version", lambda: older)
        old = PartialState().to_bytes()
    with pytest.raises(CoterieError, match=said) as caught:
        PartialState.from_bytes(old)
    assert "the same version in every process" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_cut_anywhere_is_refused(data):
    for size in (*range(0, 40), len(data) // 2, len(data) - 1):
        with pytest.raises(CoterieError, match="partial state"):
            PartialState.from_bytes(data[:size])
    assert PartialState.from_bytes(data).groups()


def small_state():
    options = coterie.ScanOptions(history=True, groups=frozenset(["grp-del-again"]))
    return scan_state((str(golden_data.log("basic")),), options, Silent())


SMALL = small_state().to_bytes()


def refused(data):
    with pytest.raises(CoterieError) as caught:
        PartialState.from_bytes(data)
    assert "\n" not in str(caught.value)


def test_a_state_with_any_one_byte_changed_cut_or_added_is_refused():
    assert PartialState.from_bytes(SMALL).groups() == small_state().groups() != []
    for at in range(len(SMALL)):
        refused(SMALL[:at] + bytes([SMALL[at] ^ 1 << at % 8]) + SMALL[at + 1 :])
    for at in (*range(200), *range(200, len(SMALL), 17)):  # the header, and the pickle
        refused(SMALL[:at] + SMALL[at + 1 :])
        refused(SMALL[:at] + b"." + SMALL[at:])
    refused(SMALL + b"\0")


@given(st.integers(0, len(SMALL)), st.integers(0, 60), st.binary(max_size=60))
def test_a_state_with_bytes_replaced_anywhere_is_refused(at, size, other):
    changed = SMALL[:at] + other + SMALL[at + size :]
    if changed != SMALL:
        refused(changed)


@pytest.mark.parametrize("column", ["metadata_end", "offset", "flags", "keys", "metadata"])
def test_columns_of_different_lengths_do_not_become_a_state(column):
    (fold,) = (fold for fold in small_state().partitions.values() if fold.history)
    columns, *others = dump(fold)
    columns[column] = np.append(columns[column], columns[column].dtype.type(0))
    with pytest.raises(CorruptData, match=r"lengths|of no entry"):
        restore(coterie.ScanOptions(history=True).new_fold(), (columns, *others))


def test_generations_that_were_changed_on_their_way_are_refused():
    logs = coterie.scan(golden_data.segments("basic")[0].read_bytes()).partitions[None].groups
    first, last, (numbers, texts, changed) = max(
        (log.__getstate__() for log in logs.values()), key=lambda state: len(state[2][0])
    )
    assert GroupLog.__new__(GroupLog).__setstate__((first, last, (numbers, texts, changed))) is None
    for wrong in (
        (numbers[:-1], texts, changed),
        (numbers, texts[:-1], changed),
        (b"\xff" * len(numbers), texts, changed),
        (numbers, texts, {key: [] for key in range(9)}),
        (numbers, texts, {0: ([],)}),
        (bytearray(numbers), texts, changed),
        (numbers, texts),
        (None, texts, changed),
        (numbers, None, changed),
        (numbers, texts, None),
        None,
    ):
        with pytest.raises((CoterieError, TypeError, ValueError, AttributeError)):
            GroupLog.__new__(GroupLog).__setstate__((first, last, wrong))


def test_a_plain_pickle_and_another_thing_that_travels_are_refused():
    for other in (pickle.dumps(PartialState()), pickling.pack("part of an answer", 5)):
        with pytest.raises(CoterieError, match="no partial state"):
            PartialState.from_bytes(other)
    with pytest.raises(CoterieError, match="not a partial state but a int"):
        PartialState.from_bytes(pickling.pack("partial state", 5))


class Calls:
    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


def test_no_function_is_called_by_what_is_read(tmp_path):
    made = tmp_path / "made"
    for calls in (
        Calls(os.mkdir, str(made)),
        Calls(eval, f"__import__('os').mkdir({str(made)!r})"),
    ):
        with pytest.raises(CoterieError, match="does not travel"):
            pickling.unpack("thing", pickling.pack("thing", calls))
    with pytest.raises(CoterieError, match="does not travel"):
        pickling.unpack("thing", pickling.pack("thing", Calls(coterie.scan, b"")))
    assert not made.exists()


QUESTIONS = {"expire": {"now_ms": 1795237385000}, "undo": {"at_ms": 1795237385000}}
QUESTIONS |= {
    name: {}
    for name in ["audit", "explain", "growth", "metrics", "lag", "time_range", "group_names"]
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_to_each_question_travels(name):
    from coterie.insight.offsets.end_offsets import EndOffsets
    from coterie.insight.question_engine import find_question, partition_answer
    from coterie.insight.records.partition_view import read_partitions

    question = find_question(name)
    ends = {"ends": EndOffsets(False, {})} if name == "lag" else {}
    ask = question.Parameters(**QUESTIONS[name], **ends)
    parts = [
        partition_answer(view, question, ask)
        for view in read_partitions([golden_data.log("basic")])
    ]
    assert [pickling.unpack("part", pickling.pack("part", part)) for part in parts] == parts
    assert any(part.rows for part in parts)
