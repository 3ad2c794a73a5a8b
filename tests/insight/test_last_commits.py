"""The last commit of each partition between two events of its group."""

from types import SimpleNamespace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.insight.offsets.last_commits import LastCommits
from support.examples import examples

NO_GROUP = 3  # the key of a group that has no events
SPANS = 30  # of each group
# A commit (key, time, whether it is a tombstone), an event of a group, or where a piece begins.
STEPS = st.lists(
    st.tuples(st.integers(0, NO_GROUP), st.integers(-1, 40), st.booleans())
    | st.integers(0, 1)
    | st.just("piece"),
    max_size=SPANS - 1,
)


def pieces_of(steps):
    """The records of each piece: span, key, time, whether it is a tombstone."""
    spans, pieces = [0, SPANS], [[]]
    for step in steps:
        if step == "piece":
            pieces.append([])
        elif isinstance(step, int):
            spans[step] += 1
        else:
            span = -1 if step[0] == NO_GROUP else spans[step[0] % 2]
            pieces[-1].append((span, *step))
    return pieces


def taken(pieces):
    commits = LastCommits()
    for piece in pieces:
        span, key, times, gone = np.array(piece, np.int64).reshape(-1, 4).T
        records = SimpleNamespace(key=key, timestamp=times, tombstone=gone.astype(np.bool_))
        commits.take(records, span.astype(np.int32), NO_GROUP + 1)
    return commits


@settings(max_examples=examples(100))
@given(STEPS)
@example([(0, 9, False), "piece", (0, 5, False), (2, 7, False), 0, "piece", (0, 6, False)])
@example(
    [
        *((key, ms, False) for key, ms in ((0, 9), (2, 8), (2, 7))),
        0,
        (2, 6, False),
        0,
        (2, 0, False),
    ]
)
@example([(0, 9, False), "piece", (0, 5, False), (1, 7, False), "piece", (0, 3, False)])
def test_the_last_commit_of_a_span_is_the_last_in_the_log(steps):
    pieces = pieces_of(steps)
    whole = taken(pieces)
    expected = {
        (span, key): ms
        for piece in pieces
        for span, key, ms, gone in piece
        if span >= 0 and ms >= 0 and not gone
    }
    entries = np.array([(0, key) for key in range(4)], [("topic", "i4"), ("partition", "i4")])
    times = whole.by_span(SimpleNamespace(entries=entries, topic_names=["t"]))
    found = {
        (span, key): ms
        for span in range(2 * SPANS)
        for (_, key), ms in times.of_spans(span, span + 1).items()
    }
    assert found == expected
