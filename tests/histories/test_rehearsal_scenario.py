"""The file of a scenario: what it holds comes back, and what is wrong in it is one line."""

import json

import pytest

from coterie.designs.checks import ScenarioError
from coterie.histories.rehearsal import scenario
from coterie.histories.rehearsal.result import rehearse
from coterie.histories.rehearsal.variants import read_variant
from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN
from support.histories.rehearsed import INCIDENTS, histories_of

LOG = INCIDENTS / "rolling-restarts" / "log"
GROUP = "--group", "eager", "--plays", "1", "--format", "json"


def start(consumer, at, **fields):
    return {"at": at, "op": "start", "consumer": consumer, "subscription": {"t": 1}} | fields


def document(*events, **fields):
    head = {"format": scenario.FORMAT, "version": 1, "topics": {"t": 4}}
    return head | {"events": list(events)} | fields


def test_every_history_of_a_real_log_comes_back():
    logs = [GOLDEN / "logs" / "basic", GOLDEN / "logs" / "kip848", INCIDENTS / "protocols"]
    folders = [*logs, *sorted(INCIDENTS.glob("*/log"))]
    histories = [history for folder in folders for history in histories_of(folder)]
    assert len(histories) > 50
    for history in histories:
        text = "".join(scenario.write(history, "4.1"))
        assert scenario.read(json.loads(text)) == (history, "4.1")


def test_a_written_scenario_is_played_in_place_of_its_log(tmp_path):
    file, to = tmp_path / "eager.json", ("--to", "static=true")
    first = coterie_ok("rehearse", LOG, *GROUP, *to, "--kafka", "4.1", "--scenario-out", file)
    assert len(json.loads(first.stdout)) == 2
    again = coterie_ok("rehearse", file, *GROUP[2:], *to)
    assert again.stdout == first.stdout  # and with the release that it was written for


def test_an_edited_scenario_needs_only_what_happens():
    more = start("b", 60_000), {"at": 120_000, "op": "close", "consumer": "b"}
    history, kafka = scenario.read(document(start("a", 0), *more))
    assert kafka is None
    row, late = rehearse(history, [read_variant("assignor=cooperative-sticky")], plays=1)
    assert (row["rebalances_most"], row["in_log"]) == (3, 0)
    assert (row["refused"], late["refused"]) == ([], [])


def test_a_file_that_is_there_stays_as_it_is(tmp_path):
    file = tmp_path / "eager.json"
    file.write_text("mine")
    done = coterie("rehearse", LOG, *GROUP, "--scenario-out", file)
    assert (done.returncode, file.read_text()) == (1, "mine")
    assert all(word in done.stderr for word in (f"--scenario-out {file}", "--overwrite"))
    coterie_ok("rehearse", LOG, *GROUP, "--scenario-out", file, "--overwrite")
    assert json.loads(file.read_text())["group"] == "eager"


START = start("a", 0)
CURVE = {"topic": "orders", "partition": 0, "times": [1, 2], "offsets": [1, 2]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "a scenario: [] is not an object"),
        ({"events": [], "topics": {}}, "format: None version None"),
        (document(version=2), "version 2 is not 'coterie-rehearsal' version 1"),
        (document(version=True), "version: True"),
        (document(kafak="4.1"), "'kafak': there are format"),
        (document(topics={"t": -1}), "topics.t: -1"),
        (document(topics={"t": 10**7}), "topics: 10000000 partitions are more"),
        (document(topics=[]), "topics: [] is not an object"),
        (document(), "events: no consumer starts"),
        (document(START, commits=[{"topic": "t"}]), "commits[0]: 'partition' is missing"),
        (document(START, commits=[CURVE | {"offsets": [1]}]), "commits[0]: 2 times are not 1"),
        (document(START, commits=[CURVE | {"times": [2, 1]}]), "commits[0].times: they are not"),
        (document(START, commits=[CURVE | {"times": [-1, 1]}]), "commits[0].times[0]: -1"),
        (document({"op": "start"}), "events[0]: 'at' is missing"),
        (document({"at": 0, "op": ["start"]}), "events[0].op: ['start'] is none of start"),
        (document({"at": 0, "op": "restart"}), "events[0].op: 'restart' is none of start"),
        (document(start("a", -1)), "events[0].at: -1"),
        (document(start("a", 1.0)), "events[0].at: 1.0"),
        (document(start("a", float("nan"))), "events[0].at: nan"),
        (document(start("a", 10**30)), "events[0].at: 1000"),
        (document(start("a", 5), start("b", 4)), "events[1].at: 4 lies before 5"),
        (document(start("a", 0), start("a", 0)), "events[1].consumer: 'a' runs already"),
        (document(start("a", 0, subscription={"u": 1})), "there is no topic 'u'"),
        (document(start("a", 0, subscription={})), "events[0].subscription"),
        (document(start("a", 0, slack_ms="1")), "events[0].slack_ms: '1'"),
        (document(start("a", 0, when=1)), "events[0].'when': there are at"),
        (document({"at": 0, "op": "close", "consumer": "a"}), "events[0].consumer: 'a' does not"),
        (
            document({"at": 0, "op": "add_partitions", "topic": "t", "count": 10**6}),
            "events[0].count: 1000004 partitions are more than 1000000",
        ),
        (document(start("a", 0, config={"group.id": "h"})), "events[0].config.group.id"),
        (
            document(*(start(name, 0, config={"member.id": "m"}) for name in "ab")),
            "events[1].config.member.id: another member has 'm'",
        ),
        (document(start("a", 0), group=""), "group: it has no name"),
        (document(start("a", 0, config={"member.id": 1})), "events[0].config.member.id: 1"),
        (document(start("a", 0, config={"sesion.timeout.ms": 1})), "session.timeout.ms"),
        (document(start("a", 0, config={"session.timeout.ms": 0})), "events[0].config: session"),
        (
            document(start("a", 0, config={"partition.assignment.strategy": "best"})),
            "'best' is not known; known are range",
        ),
        (document(start("a", 0, config={"group.protocol": "streams"})), "[0].config: group.prot"),
        (document({"at": 0, "op": "coordinator_stop", "config": {"a": 1}}), "[0].config: "),
        (document(start("a", 0), brokers={"group.sise": 1}), "brokers: "),
        (document(start("a", 0), generations=[1]), "generations[0]: 1 is not an object"),
        (
            document(start("a", 0), generations=[{"at": 1, "owners": {"a": {"t": [-1]}}}]),
            "generations[0].owners.a.t: -1",
        ),
    ],
)
def test_what_is_wrong_in_a_scenario_is_one_line_that_names_the_place(value, message):
    with pytest.raises(ScenarioError) as error:
        scenario.read(value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "status", "message"),
    [
        ("{", (), 1, "not JSON"),
        ("[" * 100_000, (), 1, "nested too deeply"),
        ('{"version": ' + "9" * 5_000 + "}", (), 1, "digits"),
        ("\udcff", (), 1, "not text"),
        (json.dumps(document(start("a", 0), kafka="2.0")), (), 1, "there are 3.9"),
        ("{}", ("--group", "g"), 2, "--group is for LOG..."),
        ("{}", ("--since", "2026-01-01T00:00:00Z"), 2, "--since is for LOG..."),
    ],
)
def test_a_file_that_is_no_scenario_is_one_line(tmp_path, text, options, status, message):
    file = tmp_path / "s.json"
    file.write_text(text, errors="surrogateescape")
    done = coterie("rehearse", file, *options)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert message in done.stderr


def test_the_scenario_and_the_answer_are_two_files(tmp_path):
    out = tmp_path / "one.json"
    done = coterie("rehearse", LOG, *GROUP, "--scenario-out", out, "-o", out)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "--scenario-out" in done.stderr


def test_a_variant_that_does_not_go_with_the_history_leaves_no_file(tmp_path):
    out = "--scenario-out", tmp_path / "s.json", "-o", tmp_path / "rows.json"
    done = coterie("rehearse", LOG, *GROUP, *out, "--to", "assignor=uniform")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


def test_the_words_of_a_scenario_do_not_reach_the_terminal_raw(tmp_path):
    file = tmp_path / "s.json"
    file.write_text(json.dumps(document(START, unknown={"a\nb\x1b[31m": 1})))
    done = coterie_ok("rehearse", file, "--plays", "1")
    assert "the log does not say: a\\nb\\x1b[31m (1)" in done.stdout


def test_a_scenario_is_of_one_group(tmp_path):
    done = coterie("rehearse", LOG, "--group", "*", "--scenario-out", tmp_path / "s.json")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "'eager', 'coop'" in done.stderr
