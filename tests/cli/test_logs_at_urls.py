"""Logs at URLs, which an engine lists; no other process reads them."""

from contextlib import contextmanager

import pytest

from coterie.insight.answering import answer
from coterie.log.folders import find_segments
from support.commandline import coterie_ok, fails
from support.log_writer import batch, commit

URL = "hdfs://host/log"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--engine", "local"), "URLs are for --engine spark"),
        (("--engine", "spark", "--include-deleted"), "--include-deleted is for plain paths"),
    ],
)
def test_a_url_is_for_spark_alone_which_reads_no_deleted_segments(options, says):
    fails("growth", URL, *options, status=2, says=says)


def test_the_engine_lists_a_log_and_answers_from_what_it_listed(tmp_path, monkeypatch):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5), commit(6, group=b"h")]))
    listed, is_open = [], []

    @contextmanager
    def lister(paths, where, progress):
        listed.append((paths, where.engine, where.master, where.conf))
        is_open.append(True)
        yield find_segments([tmp_path])
        is_open.pop()

    def asker(request, progress):
        assert is_open
        return answer(request, progress)

    monkeypatch.setattr("coterie.cli.logs.find_entry", lambda *entry: lister)
    monkeypatch.setattr("coterie.cli.question_command.find_asker", lambda name: asker)
    out = tmp_path / "rows.csv"
    options = ("--engine", "spark", "--master", "yarn", "--conf", "spark.a=b", "--format", "csv")
    coterie_ok("growth", URL, *options, "-o", out)
    assert listed == [((URL,), "spark", "yarn", (("spark.a", "b"),))]
    assert not is_open
    groups = {line.split(",")[0] for line in out.read_text().splitlines()[1:]}
    assert groups == {"g", "h"}
