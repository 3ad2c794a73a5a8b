"""A log that begins at time 0 gives the answers of the same log a day later, a day earlier."""

import json

import pytest

from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.insight.every_question import all_questions, ends_at
from support.insight.lives import life, member
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, commit, commit_key, each, marker

DAY_MS = 86_400_000
QUESTIONS = range(len(all_questions(0, 0, ends_at([0]))))


def batches(first_ms):
    """Whatever can happen to a group happens at the first time, and some of it later again."""
    at = first_ms

    def generation(ms, group, number, *ids):
        return life(ms, number, *map(member, ids), group=group, state_ms=ms)

    def removal(ms, partition):
        return ms, commit_key(1, b"g", b"t", partition), None

    records = [
        generation(at, b"g", 1, "m"),
        generation(at, b"h", 1, "n"),
        commit(at, 9),
        commit(at, 5),  # goes back
        commit(at, 40, partition=1),
        removal(at, 1),
        commit(at, 90, partition=1),  # resumed further on
        commit(at, 70, partition=2, metadata=b"much"),
        removal(at, 2),
        commit(at, 10, group=b"h"),
        generation(at, b"h", 2),
        commit(at, 9000, group=b"h"),  # from outside
        commit(at, 3, group=b"h", partition=1),
        generation(at, b"x", None),
        *(commit(at + 90 * n, 10 * n, partition=5) for n in range(40)),  # stands still
        *(commit(at + 90 * n, 10 * n, partition=6) for n in range(90)),
        generation(at + 8200, b"g", 2, "m", "o"),
        commit(at + 8300, 2),
        generation(at + 8400, b"g", 3, "o"),
        generation(at + 8500, b"h", None),
    ]
    opened = [
        batch(0, [commit(at, 1, group=b"k")], producer_id=5, transactional=True),
        batch(1, [commit(at, 1, partition=7)], producer_id=6, transactional=True),
        marker(2, 6, at, commit=False),
        batch(3, [commit(at, 2, partition=7)], producer_id=6, transactional=True),
        marker(4, 6, at, commit=True),
    ]
    return [*opened, *each(5, *records)]


def answers(folder, first_ms, which):
    """A question's rows, from a log as one and batch by batch."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    data = batches(first_ms)
    for begin, end in ((0, 14), (14, len(data))):
        (folder / f"{begin:020}.log").write_bytes(b"".join(data[begin:end]))
    (segments,) = find_segments([folder]).partitions().values()
    ends = ends_at([first_ms, first_ms + 5000])
    question, parameters = all_questions(first_ms, first_ms + 10_000, ends)[which]
    whole = list(question.rows(PartitionView(0, segments), parameters))
    in_pieces = answer_in_pieces(segments, question, parameters, {})
    fields = getattr(question, "fields_of", lambda _: question.FIELDS)(parameters)
    return [[earlier(row, fields, first_ms) for row in rows] for rows in (whole, in_pieces)]


def earlier(value, kind, by_ms):
    """A value with all of its times so much earlier, also those in texts."""
    if isinstance(kind, dict):
        return value and {name: earlier(value[name], kind[name], by_ms) for name in kind}
    if isinstance(kind, list):
        return value and [earlier(one, kind[0], by_ms) for one in value]
    if kind == "timestamp" and value is not None:
        return value - by_ms
    return (
        value.replace("1970-01-02T", "1970-01-01T") if isinstance(value, str) and by_ms else value
    )


def as_text(rows, folder):
    """Rows without the folder that their files are in."""
    return [json.dumps(row).replace(str(folder), "") for row in rows]


@pytest.mark.parametrize("which", QUESTIONS)
def test_a_log_from_time_0_on_has_the_answers_of_any_other(tmp_path, which):
    first, later = tmp_path / "first", tmp_path / "later"
    expected, actual = answers(later, DAY_MS, which), answers(first, 0, which)
    assert expected[0], "nothing is compared"
    for others, rows in zip(expected, actual, strict=True):
        assert as_text(rows, first) == as_text(others, later)
