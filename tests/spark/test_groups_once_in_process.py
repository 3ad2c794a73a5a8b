"""DataFrames of questions have each group once, as the local engine. No JVM is started."""

import pytest

import coterie_spark
from coterie_spark.replay_job import spool
from support import log_writer
from support.grown_topic import COUNT, GROUP, GROWN_MS, MINUTE, NEWER, OLDER, story, write
from support.spark_questions import OF_GROWN_TOPIC, arguments_of, rows_here

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
from support.spark_stand_in import Session, patched

END_MS = GROWN_MS + 11 * MINUTE
OTHER = 7  # a partition that shares another group with the newer one


@pytest.fixture
def session(monkeypatch, tmp_path):
    patched(monkeypatch)
    monkeypatch.setattr(spool, "home", lambda: str(tmp_path))
    return Session()


def written(folder, numbers):
    """Write the story; beside it, a group in two other partitions, and groups in one."""
    parts = story(older_only=True)
    shared = (log_writer.commit(8, 5, group=b"also-in-two"),)
    parts[OTHER] = log_writer.batch(0, [*shared, log_writer.commit(9, 6, group=b"in-one")])
    parts[OLDER] += log_writer.batch(90, [log_writer.commit(END_MS, 4, group=b"only-older")])
    home = write(folder, parts, numbers)
    second = home / f"__consumer_offsets-{NEWER}" / f"{90:020}.log"
    second.write_bytes(log_writer.batch(90, [log_writer.commit(END_MS, 7, group=b"also-in-two")]))
    return home


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_frames_have_the_rows_of_one_process(session, tmp_path, scheme):
    log = written(tmp_path / "log", ())
    for name, parameters in OF_GROWN_TOPIC:
        frame = getattr(coterie_spark, name)(session, f"{scheme}{log}", **arguments_of(parameters))
        rows = [
            repr(row).replace(f"{scheme}{log}", str(log)) for row in frame.toArrow().to_pylist()
        ]
        assert sorted(rows) == rows_here(log, name, parameters), name


@pytest.mark.parametrize(
    ("argument", "of_request"),
    [
        ({"groups": {GROUP}}, {"groups": frozenset({GROUP})}),
        ({"at": GROWN_MS - 1}, {"at_ms": GROWN_MS - 1}),
        ({"since": GROWN_MS}, {"since_ms": GROWN_MS}),
    ],
)
def test_groups_and_times_count_as_in_one_process(session, tmp_path, argument, of_request):
    log = written(tmp_path / "log", range(COUNT))
    frame = coterie_spark.explain(session, log, **argument)
    rows = sorted(map(repr, frame.toArrow().to_pylist()))
    assert rows == rows_here(log, "explain", {}, **of_request)
