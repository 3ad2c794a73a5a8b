"""What the options of a command become in the request that its engine gets."""

import pytest

from coterie.insight.answering import answer
from coterie.state.replay_engine import Summary
from support.commandline import coterie_ok
from support.log_writer import commit, each

ON_SPARK = ("--engine", "spark", "--master", "yarn", "--conf", "spark.a=b", "--conf", "spark.c=d")
CONF = (("spark.a", "b"), ("spark.c", "d"))


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(each(0, *(commit(ms) for ms in (1, 4, 8)))))
    return tmp_path / "log"


def test_a_replay_has_its_options_and_those_of_spark(log, tmp_path, monkeypatch):
    requests = []

    def engine(request, progress):
        (request.out / "groups.json").touch()
        requests.append(request)
        return Summary(0, 0, 0, 0, 1, (), {}, 1, {})

    names = {"spark": engine}
    monkeypatch.setattr("coterie.cli.replay.find_engine", names.__getitem__)
    out = ("--out", tmp_path / "out", "--format", "json", "--history", "--on-fault", "load")
    coterie_ok("replay", log, *out, *ON_SPARK, "--group", "g")
    (request,) = requests
    assert (request.master, request.conf, request.format) == ("yarn", CONF, "json")
    options = request.options
    assert (options.on_fault, options.at_ms, options.history) == ("load", None, True)
    assert options.groups == {"g"}
    assert [segment.partition for segment in request.log.segments] == [0]


def test_a_question_has_its_span_of_time_and_the_options_of_spark(log, monkeypatch):
    requests = []

    def asker(request, progress):
        requests.append(request)
        return answer(request, progress)  # by this process, which needs neither master nor settings

    names = {"spark": asker}
    monkeypatch.setattr("coterie.cli.question_command.find_asker", names.__getitem__)
    span = ("--since", 3, "--until", 7, "--now", 9)
    coterie_ok("expire", log, *span, *ON_SPARK, "--group", "g")
    (request,) = requests
    assert (request.question, request.groups) == ("expire", {"g"})
    assert (request.since_ms, request.at_ms, request.parameters.now_ms) == (3, 7, 9)
    assert (request.master, request.conf) == ("yarn", CONF)
