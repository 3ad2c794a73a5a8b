"""The offsets topic was deleted and created again: copies, and partitions, are of two topics."""

import itertools
import json
from pathlib import Path

import pytest

from coterie.insight.records.comparison import FIELDS
from coterie.log.folders import find_segments
from coterie.log.topic_id import topic_id_of
from support.commandline import coterie
from support.insight.copies import compared, history, write_copy

OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "_-AAAAAAAAAAAAAAAAAAAg"
LATER = 1_000_000


@pytest.fixture
def copies(tmp_path):
    """Copies by name: the old topic has the higher epoch and more records, the new one two."""
    new = history(0, 2, 10, time=LATER)
    return {
        "old": write_copy(tmp_path / "old", history(0, 12, 50), topic_id=OLD),
        "new": write_copy(tmp_path / "new", new, topic_id=NEW),
        "behind": write_copy(tmp_path / "behind", new[:6], topic_id=NEW),
    }


@pytest.mark.parametrize("order", list(itertools.permutations(["old", "new", "behind"])))
def test_the_best_copy_is_one_of_the_topic_with_the_newest_records(copies, order):
    rows = compared(*(copies[name] for name in order))
    assert {name: row["status"] for name, row in rows.items()} == {
        "old": "other_topic", "new": "best", "behind": "behind",
    }  # fmt: skip
    assert [rows[name]["topic_id"] for name in ("old", "new")] == [OLD, NEW]
    assert (rows["old"]["common_until"], rows["old"]["records_only_here"]) == (None, 0)
    assert (rows["behind"]["common_until"], rows["behind"]["records_lacking"]) == (6, 4)


def test_a_copy_without_an_id_counts_as_one_of_todays(copies, tmp_path):
    unknown = write_copy(tmp_path / "unknown", history(0, 2, 12, time=LATER))
    rows = compared(*copies.values(), unknown)
    assert [rows[name]["status"] for name in ("old", "unknown", "new")] == [
        *("other_topic", "best", "behind"),
    ]
    with_one_id = compared(copies["old"], unknown)
    assert [row["status"] for row in with_one_id.values()] == ["best", "diverged"]


def test_the_newest_record_of_any_partition_decides_for_all(copies):
    """Partition 1 has no record in the new topic, and partition 2 is in the old one alone."""
    for number in (1, 2):
        write_copy(Path(copies["old"]), history(0, 12, 5), partition=number, topic_id=OLD)
    write_copy(Path(copies["new"]), [], partition=1, topic_id=NEW)
    done = coterie("compare", copies["old"], copies["new"], "--format", "json")
    rows = json.loads(done.stdout)
    status = {
        (row["copy"] == copies["new"], row["offsets_partition"]): row["status"] for row in rows
    }
    assert status == {
        (False, 0): "other_topic", (True, 0): "best", (False, 1): "other_topic", (True, 1): "best",
        (False, 2): "other_topic", (True, 2): "missing",
    }  # fmt: skip
    assert all(list(row) == list(FIELDS) for row in rows)
    assert done.returncode == 1
    assert done.stderr == (
        "coterie: copies of 2 topics: the topic was deleted and created again; the newest records "
        f"are of the one with the id {NEW}. What {copies['old']} has of {OLD} is not compared, and "
        "not the best\n"
    )
    best = coterie("compare", copies["old"], copies["new"], "--take", "best")
    assert best.stdout.splitlines() == [f"{copies['new']}/__consumer_offsets-{n}" for n in (0, 1)]
    assert best.returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        *(["records"], ["verify"], ["groups", "--list"], ["explain"], ["audit"], ["expire"]),
        *(["growth"], ["undo", "--all-groups", "--at", "5"], ["metrics"]),
        ["replay", "--engine", "local", "--format", "json", "--out", "{out}"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_merges_partitions_of_two_topics_says_so_in_a_line(tmp_path, command):
    for number, topic_id in enumerate((OLD, NEW, OLD, None)):
        batches = history(0, 1, 3, group=b"g%d" % number)
        write_copy(tmp_path / "log", batches, partition=number, topic_id=topic_id)
    name, *options = (word.format(out=tmp_path / "out") for word in command)
    done = coterie(name, tmp_path / "log", *options)
    line = (
        "these partitions are of 2 topics with one name, for the topic was deleted and created "
        f"again (topic ids {OLD}: partition 0 and 1 more; {NEW}: partition 1)"
    )
    assert done.stderr.count(line) == 1, done.stderr
    for number in (1, 2):
        (tmp_path / f"log/__consumer_offsets-{number}/partition.metadata").unlink()
    assert "topics with one name" not in coterie(name, tmp_path / "log", *options).stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"version: 0\ntopic_id: {OLD}", OLD),
        (f"version: 0\ntopic_id: {OLD}\n", OLD),
        (f"version:   0\r\ntopic_id:  {NEW}\r\n", NEW),
        (f"version: 0\ntopic_id: {'A' * 22}", None),  # Kafka's zero id is none
        (f"version: 1\ntopic_id: {OLD}", None),
        (f"version: 0\ntopic_id: {OLD}A", None),
        ("version: 0\n", None),
        ("", None),
        ("\xff", None),
        ("version: 0\ntopic_id: " + "A" * 10_000, None),
    ],
)
def test_the_id_is_what_kafka_reads_from_the_file(tmp_path, content, expected):
    write_copy(tmp_path, history(0, 1, 1))
    assert topic_id_of(find_segments([tmp_path]).segments) is None
    path = tmp_path / "__consumer_offsets-0/partition.metadata"
    path.write_bytes(content.encode("latin-1"))
    assert topic_id_of(find_segments([tmp_path]).segments) == expected
