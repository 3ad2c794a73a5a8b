"""`undo` tells that a topic is another one by the ids of the commits, against a model in lists."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.codec.schema import encode_value
from coterie.insight.questions import undo
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.commandline import coterie_ok
from support.examples import examples
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, commit_key, marker

IDS = ("AAAAAAAAAAEAAAAAAAAAAQ", "AAAAAAAAAAEAAAAAAAAAAg", "AAAAAAAAAAIAAAAAAAAAAQ")
T0, STEP_MS = 1_000_000, 1_000
CHANGED = "the topic id changed"


def value(offset, topic_id):
    data = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": T0}
    if topic_id == "of version 3":
        return encode_value(1, {"version": 3, "data": data})
    return encode_value(
        1, {"version": 4, "data": data | ({"topicId": topic_id} if topic_id else {})}
    )


def written(folder, steps):
    """Write a step a segment; give the commits with an id: (partition, effective since, id).

    A step: its partition, the commit's topic id, how it ends, and after how many steps.
    """
    folder = Path(folder) / "__consumer_offsets-0"
    folder.mkdir()
    commits, markers = [], {}
    for at in range(len(steps) + 4):
        time, data = T0 + at * STEP_MS, b""
        for producer, ends_with_commit in markers.pop(at, ()):
            data += marker(at * 100 + 50 + producer, producer, time, commit=ends_with_commit)
        if at < len(steps):
            partition, topic_id, end, later = steps[at]
            record = (time, commit_key(1, b"g", b"t", partition), value(at, topic_id))
            if end == "tombstone":
                record = (*record[:2], None)
            in_transaction = end in ("commit", "abort")
            data += batch(
                at * 100 + 99, [record], producer_id=at if in_transaction else -1,
                transactional=in_transaction,
            )  # fmt: skip
            if in_transaction:
                markers.setdefault(at + later, []).append((at, end == "commit"))
            if topic_id in IDS and end in ("plain", "commit"):
                since = time + later * STEP_MS * in_transaction
                commits.append((partition, since, topic_id))
        (folder / f"{at * 100:020}.log").write_bytes(data)
    return commits


def changed(commits, at_ms):
    """The partitions whose last commit has another id than the last one up to the time."""
    ids = {}
    for partition, since, topic_id in commits:
        then, _ = ids.get(partition, (None, None))
        ids[partition] = (topic_id if since <= at_ms else then, topic_id)
    return {partition for partition, (then, last) in ids.items() if then not in (None, last)}


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([*IDS, None, "of version 3"]),
        st.sampled_from(["plain", "plain", "commit", "abort", "tombstone"]),
        st.integers(1, 3),
    ),
    min_size=2,
    max_size=10,
)


@settings(max_examples=examples(200))
@given(STEPS, st.integers(0, 10))
def test_a_row_says_so_if_the_id_changed_since_the_time_and_so_do_pieces(steps, at):
    with tempfile.TemporaryDirectory() as home:
        expected = changed(written(home, steps), T0 + at * STEP_MS)
        (segments,) = find_segments([home]).partitions().values()
        parameters = undo.Parameters(T0 + at * STEP_MS)
        rows = list(undo.rows(PartitionView(0, segments), parameters))
        for row in rows:
            assert (CHANGED in (row["note"] or "")) == (row["partition"] in expected), steps
        assert answer_in_pieces(segments, undo, parameters, {}) == rows


def test_the_command_warns_that_the_topic_was_created_again(tmp_path):
    written(tmp_path, [(0, IDS[0], "plain", 1), (1, IDS[0], "plain", 1), (0, IDS[2], "plain", 1)])
    done = coterie_ok("undo", tmp_path, "--group", "g", "--at", str(T0 + STEP_MS))
    assert "group 'g': 1 partition of a topic that was created again: " in done.stderr
    note = f"{CHANGED}; the topic was created again, and offset 0 is of the old one"
    assert done.stderr.count(note) == 1
