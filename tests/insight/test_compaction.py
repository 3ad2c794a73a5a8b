"""What compaction has taken is unknown, never "no"; and what is told is what the whole log tells.

Random logs, cut and cleaned by a model of Kafka's cleaner; every question is put to the whole log
and to what is left of it.
"""

import tempfile

import pytest
from compacted_logs import FIRST_MS, folders, operations, written
from hypothesis import given
from hypothesis import strategies as st

from coterie.insight import undo
from coterie.insight.asking import rows_of
from coterie.insight.facts import read_facts

TIMES = st.lists(st.integers(-1, 1_000_000), min_size=1, max_size=6)
KEY = ("group_id", "topic", "partition")


def facts_of(folder, **how):
    (facts,) = read_facts([folder], **how)
    return facts


def by_key(rows):
    return {tuple(row[name] for name in KEY): row for row in rows}


def without(row, *names):
    return {name: value for name, value in row.items() if name not in ("trusted_from", *names)}


@pytest.fixture
def both():
    """Writes the two logs, and gives the facts of both and since when the second is trusted."""

    def make(log, home):
        whole, left = folders(log, home)
        return whole, left, facts_of(left).trusted_from_ms

    return make


def is_trusted(since_ms, at_ms):
    return since_ms is None or at_ms >= since_ms


@given(operations(), TIMES)
def test_undo_tells_what_was_or_that_it_is_not_known(steps, times):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        for at_ms in {FIRST_MS + ms for ms in times} | {log.now_ms}:
            expected = by_key(rows_of(facts_of(whole), undo, undo.Ask(at_ms)))
            found = by_key(rows_of(facts_of(left), undo, undo.Ask(at_ms)))
            since_ms = facts_of(left).trusted_from_ms
            assert set(found) <= set(expected)
            for key, row in expected.items():
                one = found.get(key)
                if is_trusted(since_ms, at_ms):
                    assert one is not None
                    rewind_is_old = since_ms is not None and (row["rewound_at"] or 0) < since_ms
                    ignored = PLACES | ({"rewound_from", "rewound_at"} if rewind_is_old else set())
                    assert without(one, *ignored) == without(row, *ignored)
                elif one is not None and one["change"] != undo.UNKNOWN:
                    ignored = PLACES | {"rewound_from", "rewound_at"}
                    assert without(one, *ignored) == without(row, *ignored)


PLACES = {"file", "position", "previous_log_offset"}
