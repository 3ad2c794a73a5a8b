"""The state of a copy: what is wrong in it is named, and `lag` takes its time as the log's end."""

import json
import os

import pytest

from coterie.errors import LogError
from coterie.log.copy_state import (
    STATE_FILE,
    CopyState,
    LogStartMove,
    complete_until_ms,
    put_aside,
    read_copy_state,
    write_copy_state,
)
from coterie.log.folders import TOPIC, Listing, find_segments
from support.commandline import coterie_ok
from support.golden_data import log

WHOLE = CopyState(TOPIC, 3, "c", None, 0, 1_000, 5).complete(60, 2_000).moved(9, 7, 3_000)


def test_a_state_is_read_as_it_was_written(tmp_path):
    write_copy_state(tmp_path, WHOLE)
    assert read_copy_state(tmp_path) == WHOLE
    assert WHOLE.moves[0].lost == 2
    assert read_copy_state(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", "{", '{"version": 2}', '{"version": 1, "moves": 7}', "\xff",
        '{"version": 1, "moves": [{"at": 1}]}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_state_is_named(tmp_path, text):
    (tmp_path / STATE_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(LogError, match=STATE_FILE):
        read_copy_state(tmp_path)


def test_each_move_begins_where_the_last_one_ended_and_offsets_are_lost_once():
    state = CopyState(TOPIC, 3, "c", None, 1, 1_000, 1).moved(5, 3, 2_000)
    state = state.moved(9, 3, 3_000).moved(12, 20, 4_000)
    assert state.log_start == 12
    assert state.moves == (
        LogStartMove(2_000, before=1, after=5, lost=2),
        LogStartMove(3_000, before=5, after=9, lost=4),
        LogStartMove(4_000, before=9, after=12, lost=0),
    )


@pytest.mark.parametrize("value", ["x", None, 1.5, True])
@pytest.mark.parametrize("name", ["partition", "first_offset", "begun_at_ms", "log_start"])
def test_a_field_that_is_no_number_is_named(tmp_path, name, value):
    write_copy_state(tmp_path, WHOLE)
    fields = json.loads((tmp_path / STATE_FILE).read_text())
    (tmp_path / STATE_FILE).write_text(json.dumps({**fields, name: value}))
    with pytest.raises(LogError, match="not the state of a copy"):
        read_copy_state(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", 7), ("cluster_id", 7), ("topic_id", []), ("complete_until_ms", "x"),
        ("complete_until_offset", 1.5), ("moves", [[1, 2, 3, 4]]),
        ("moves", [{"at_ms": "x", "before": 0, "after": 1, "lost": 0}]),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_named(tmp_path, name, value):
    write_copy_state(tmp_path, WHOLE)
    fields = json.loads((tmp_path / STATE_FILE).read_text())
    (tmp_path / STATE_FILE).write_text(json.dumps({**fields, name: value}))
    with pytest.raises(LogError, match="not the state of a copy"):
        read_copy_state(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_in_the_place_of_a_state_is_named(tmp_path, make):
    make(tmp_path / STATE_FILE)
    with pytest.raises(LogError, match=rf"{STATE_FILE}: cannot be read: not a regular file"):
        read_copy_state(tmp_path)


@pytest.fixture
def copy(tmp_path):
    """A copy of a log of Kafka's, with states that are complete until other times."""
    folder = tmp_path / "copy"
    for source in log("basic").glob(f"{TOPIC}-*"):
        number = int(source.name.rpartition("-")[2])
        (folder / source.name).mkdir(parents=True)
        for segment in source.glob("*.log*"):
            (folder / source.name / segment.name).write_bytes(segment.read_bytes())
        state = CopyState(TOPIC, number, "c", None, 0, 0, 0).complete(9, 1_900_000_000_000 + number)
        write_copy_state(folder / source.name, state)
    return folder


def test_a_log_is_complete_until_the_earliest_time_of_its_partitions(copy):
    folders = sorted(copy.iterdir())
    numbers = [int(folder.name.rpartition("-")[2]) for folder in folders]
    assert complete_until_ms(find_segments([copy])) == 1_900_000_000_000 + min(numbers)
    (folders[0] / STATE_FILE).unlink()
    assert complete_until_ms(find_segments([copy])) is None
    assert complete_until_ms(Listing((), ())) is None


def test_a_sample_up_to_then_is_not_beyond_the_log(copy, tmp_path):
    ends = tmp_path / "ends.csv"
    ends.write_text("time,topic,partition,offset\n1899999999999,clicks,1,999999\n")
    lag = ("--end-offsets", ends, "--format", "json", "--group", "grp-assign-java")

    def statuses(folder):
        return {row["status"] for row in json.loads(coterie_ok("lag", folder, *lag).stdout)}

    assert "beyond_log" not in statuses(copy)
    assert "beyond_log" in statuses(log("basic"))


def test_copies_of_earlier_topics_of_the_name_are_put_aside_by_their_ids(tmp_path):
    ids = {"t-0": "old", "t-1": "old", "t-2": "new", "t-3": None, "t-4": "older", "t-x-0": "old"}
    for name, topic_id in ids.items():
        (tmp_path / name).mkdir()
        topic = name.rpartition("-")[0]
        write_copy_state(tmp_path / name, CopyState(topic, 0, "c", topic_id, 0, 0, 0))
    (tmp_path / "t-9").mkdir()  # without a state
    aside = put_aside(tmp_path, "t", "new")
    assert aside == [tmp_path / "t.old", tmp_path / "t.older"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"t.old", "t.older", "t-2", "t-3", "t-9", "t-x-0"}
    assert sorted(path.name for path in (tmp_path / "t.old").iterdir()) == ["t-0", "t-1"]
    assert put_aside(tmp_path, "t", "new") == []


def test_the_latest_moves_of_a_log_are_kept(monkeypatch):
    monkeypatch.setattr("coterie.log.copy_state.MOVES_MAX", 2)
    state = CopyState(TOPIC, 3, "c", None, 0, 0, 0)
    for at in (1, 2, 3):
        state = state.moved(at, 9, at * 1_000)
    assert [move.at_ms for move in state.moves] == [2_000, 3_000]
