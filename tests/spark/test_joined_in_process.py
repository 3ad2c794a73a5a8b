"""Tables of Spark have each group once, as those of the local engine. No JVM is started."""

import pytest

from coterie import ScanOptions
from coterie.state.replay_engine import ReplayRequest, Silent
from coterie_spark.replay_job import merging
from support import log_writer as write
from support.grown_topic import (
    COUNT,
    GROUP,
    NEWER,
    OLDER,
    batches,
    committed,
    generation,
    in_transaction,
    story,
)
from support.grown_topic import write as write_log

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")
from coterie.state.local_replay import replay as replay_locally  # noqa: E402
from coterie_spark import replay  # noqa: E402
from coterie_spark.replay_job import driver, engine  # noqa: E402
from support.replayed_tables import local_rows, rows_of  # noqa: E402
from support.spark_stand_in import Session, patched  # noqa: E402

PLACES = {"copy of all": range(COUNT), "copy of two": ()}
DRIVER_BYTES = {"workers": "-1", "driver": str(1 << 20)}
OLD = batches(in_transaction(committed(5, 9, group="open")), generation(7, 3, [b"x"], group="open"))


@pytest.fixture(params=DRIVER_BYTES)
def session(monkeypatch, request):
    patched(monkeypatch)
    return Session(**{"spark.coterie.driverBytes": DRIVER_BYTES[request.param]})


@pytest.fixture(params=PLACES)
def log(tmp_path, request):
    """The story; beside it, groups that are in one partition."""
    parts = story(older_only=True)
    parts[OLDER] += write.batch(90, [write.commit(8, 4, group=b"only-older")])
    parts[NEWER] += write.batch(90, [write.commit(8, 5, group=b"only-newer")])
    parts |= {3: OLD}
    return write_log(tmp_path / "log", parts, PLACES[request.param])


@pytest.mark.parametrize("history", [False, True])
def test_frames_have_the_rows_of_one_process(session, log, history):
    found = replay(session, log, history=history)
    expected = local_rows([log], history=history)
    assert {name: rows_of(table.toArrow()) for name, table in found.items()} == {
        name: expected[name] for name in found
    }
    assert found.summary.groups == len(expected["groups"])
    (note,) = found.notes
    assert note.startswith(f"group {GROUP!r} has records in partitions {OLDER} and {NEWER}")
    found.unpersist()
    assert session.persisted == []


def replayed(run, log, out, form, **options):
    """The files of a replay, tables as rows, and its summary."""
    out.mkdir()
    request = ReplayRequest((str(log),), out, form, ScanOptions(**options))
    summary = run(request, Silent())
    if form == "json":
        files = {path.name: path.read_text() for path in out.iterdir()}
        return {name: sorted(text.splitlines()) for name, text in files.items()}, summary
    return {path.name: rows_of(pq.read_table(path)) for path in out.iterdir()}, summary


@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("options", [{}, {"history": True}, {"at_ms": 2500}, {"groups": {GROUP}}])
def test_the_command_has_the_rows_and_the_lines_of_one_process(
    session, log, tmp_path, monkeypatch, form, options
):
    monkeypatch.setattr(merging, "CHUNK_BYTES", 200)
    options |= {"groups": frozenset(options["groups"])} if "groups" in options else {}
    found, summary = replayed(
        lambda *request: engine.replay_in(session, *request), log, tmp_path / "s", form, **options
    )
    expected, local = replayed(replay_locally, log, tmp_path / "l", form, **options)
    assert found == expected
    assert (summary.groups, summary.notes) == (local.groups, local.notes)
    assert bool(summary.notes) == ("at_ms" not in options)


def test_a_partition_that_kafka_does_not_load_has_no_part_in_a_group(session, tmp_path):
    parts = story()
    time, key, value = write.commit(1, 3, group=b"other")
    parts[OLDER] += write.batch(90, [(time, key, value[:9])])
    log = write_log(tmp_path / "log", parts)
    for on_fault in ("load", "skip"):
        found = replay(session, log, on_fault=on_fault)
        expected = local_rows([log], on_fault=on_fault)
        assert {name: rows_of(table.toArrow()) for name, table in found.items()} == {
            name: expected[name] for name in found
        }
        assert len(found.notes) == (on_fault == "skip")
        found.unpersist()


def test_partitions_without_a_group_of_another_are_read_once(session, log, monkeypatch):
    read = []
    road = driver.from_log
    monkeypatch.setattr(driver, "from_log", lambda *asked: read.append(asked[-1]) or road(*asked))
    replay(session, log, groups="only-older").unpersist()
    assert read == [None]
    replay(session, log).unpersist()
    assert read[1:] == [None, {OLDER: 2, NEWER: 2}]
