"""Scenarios that are wrong: one line with its place, exit 1, nothing written."""

import json

import pytest

from coterie.designs import Scenario, ScenarioError, read_scenario, run
from coterie.designs.files import files_of
from coterie.errors import ArgumentError
from support.commandline import coterie, coterie_ok


def scenario(*events, **config):
    """A scenario of ops, each a second after the one before where it has no ``at``."""
    timed = [{"at": 1000 * i, **event} for i, event in enumerate(events)]
    return {
        "format": "coterie-zk08",
        "version": 1,
        "name": "s",
        "config": {"brokers": [0, 1], **config},
        "events": timed,
    }


TOPIC = {"op": "create_topic", "topic": "t", "replicas": [[0], [1]]}
START = {"op": "start", "consumer": "c", "subscription": {"t": 1}}
WRONG = [
    ([{"op": "explode"}], "events[0].op: unknown op 'explode'"),
    ([{}], "events[0].op: unknown op None"),
    ([{"op": ["close"]}], "events[0].op: unknown op ['close']"),
    ([{"op": "wait", "ms": 1, "at": -1}], "events[0].at: -1 is not a whole number from 0"),
    ([{"op": "wait", "ms": 1, "at": 1.5}], "events[0].at: 1.5 is not a whole number from 0"),
    (
        [{"op": "wait", "ms": 1, "at": 9}, {"op": "wait", "ms": 1, "at": 8}],
        "events[1].at: 8 lies before 9, the op before it",
    ),
    ([{"op": "wait"}], "events[0]: wait needs 'ms'"),
    ([{"op": "wait", "ms": 1, "place": "x"}], "events[0]: wait has no field 'place'"),
    ([{"op": "close", "consumer": "c"}], "events[0].consumer: no consumer 'c' was started"),
    *(
        (
            [TOPIC, START, {"op": gone, "consumer": "c"}, {"op": then, "consumer": "c"}],
            "events[3].consumer: 'c' does not run any more",
        )
        for gone in ("close", "crash")
        for then in ("close", "crash", "zk_cut", "zk_hold")
    ),
    (
        [TOPIC, START, {"op": "coordinator_stop", "group": "other"}],
        "events[2].group: no consumer is of group 'other'",
    ),
    ([TOPIC, START, START], "events[2]: consumer 'c' runs already"),
    (
        [{**START, "whitelist": "t"}],
        "events[0]: start needs one of 'subscription', 'whitelist' and 'blacklist'",
    ),
    ([{**START, "subscription": {"t": 0}}], "events[0].subscription.t: 0 is not a whole number"),
    ([{**START, "group": "a/b"}], "events[0].group: 'a/b' is not a name"),
    (
        [{"op": "start", "consumer": "c", "whitelist": "a("}],
        "events[0].whitelist: 'a(' is not a regular expression",
    ),
    (
        [{**START, "config": {"rebalance.max.retries": "many"}}],
        "events[0].config: rebalance.max.retries: 'many' is not a whole number",
    ),
    (
        [{**START, "config": {"auto.offset.reset": "middle"}}],
        "events[0].config: auto.offset.reset: 'middle' is none of largest, smallest",
    ),
    ([{**TOPIC, "replicas": []}], "events[0].replicas: [] is not a list of replica lists"),
    ([{**TOPIC, "replicas": [[]]}], "events[0].replicas[0]: [] is not a list of broker ids"),
    ([{**TOPIC, "replicas": [[0, 0]]}], "events[0].replicas[0]: [0, 0] is not a list of different"),
    ([{**TOPIC, "replicas": [[0], [7]]}], "events[0].replicas[1]: there is no broker 7"),
    ([{**TOPIC, "replicas": "0"}], "events[0].replicas: '0' is not a list of replica lists"),
    ([TOPIC, TOPIC], "events[1].topic: 't' is there already"),
    *(
        ([{"op": op, "topic": "t", **more}], "events[0].topic: there is no topic 't'")
        for op, more in (
            *(("add_partitions", {"replicas": [[0]]}), ("delete_topic", {}), ("touch_topic", {})),
            ("produce", {"partition": 0, "count": 1}),
        )
    ),
    (
        [TOPIC, {"op": "add_partitions", "topic": "t", "replicas": [[0], [7]]}],
        "events[1].replicas[1]: there is no broker 7",
    ),
    (
        [TOPIC, {"op": "produce", "topic": "t", "partition": 2, "count": 1}],
        "events[1].partition: 't' has partitions 0 to 1, not 2",
    ),
    *(
        ([{"op": op, "broker": 2}], "events[0].broker: there is no broker 2")
        for op in ("broker_stop", "broker_start")
    ),
    ([{"op": "coordinator_stop", "moment": "soon"}], "events[0].moment: 'soon' is none of"),
    ([{"op": "znode_set", "path": "x"}], "events[0].path: 'x' is not a node's path"),
    ([{"op": "znode_set", "path": "/x"}], "events[0]: ZooKeeper refuses: NoNode /x"),
    ([{"op": "znode_delete", "path": "/brokers"}], "events[0]: ZooKeeper refuses: NotEmpty"),
    (["wait"], "events[0]: 'wait' is not an object"),
]


@pytest.mark.parametrize(("events", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_named_with_its_place(events, said):
    given = scenario()
    given["events"] = [
        {"at": 1000 * i, **event} if isinstance(event, dict) else event
        for i, event in enumerate(events)
    ]
    with pytest.raises(ScenarioError) as caught:
        run(given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"events": "x"}, "events: 'x' is not a list"),
        ({"config": 3}, "config: 3 is not an object"),
        ({"config": {"brokers": []}}, "config.brokers: [] is not a list of broker ids"),
        ({"config": {"zookeeper.tick.ms": 0}}, "config.zookeeper.tick.ms: 0 is not a whole number"),
        ({"config": {"consumer": {"x": [1]}}}, "config.consumer.x: [1] is not text"),
        ({"config": {"brokers_up": 1}}, "config.brokers_up: 1 is not true or false"),
        ({"format": "coterie-trace"}, "format: 'coterie-trace' version 1 is not 'coterie-zk08'"),
        ({"version": 2}, "format: 'coterie-zk08' version 2 is not 'coterie-zk08' version 1"),
    ],
)
def test_what_is_wrong_around_the_events_is_named_too(change, said):
    with pytest.raises(ScenarioError) as caught:
        read_scenario(scenario() | change)
    assert str(caught.value).startswith(said)


def test_a_design_that_there_is_not_is_refused():
    with pytest.raises(ArgumentError, match="'raft' is none of"):
        run(scenario(), "raft")


def test_a_scenario_that_is_read_can_be_run():
    read = read_scenario(scenario(TOPIC, START, {"op": "settle", "point": 1, "at": 20_000}))
    assert isinstance(read, Scenario)
    assert run(read).points == run(read).points
    assert len(run(read).points) == 1


def test_who_started_again_or_is_closing_yet_can_be_cut_and_a_group_may_come_later():
    close = {"op": "close", "consumer": "c"}
    cut = {"op": "zk_cut", "consumer": "c"}
    later = {"op": "coordinator_stop", "group": "other"}, {**START, "as": "d", "group": "other"}
    for events in ((close, START, cut, close), ({**close, "async": True}, cut), later):
        assert len(read_scenario(scenario(TOPIC, START, *events)).ops) == 2 + len(events)


def taken(*events, **config):
    """Whether a scenario of these ops can be run."""
    try:
        read_scenario(scenario(*events, **config))
    except ScenarioError:
        return False
    return True


def test_messages_may_go_to_a_partition_that_was_added():
    more = {"op": "add_partitions", "topic": "t", "replicas": [[0], [0], [1]]}
    produce = {"op": "produce", "topic": "t", "count": 1}
    numbers = [n for n in range(9) if taken(TOPIC, more, {**produce, "partition": n})]
    assert numbers == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("deletes", [True, False])
def test_a_deleted_topic_can_be_made_again_or_stays(deletes):
    delete = {"op": "delete_topic", "topic": "t"}
    produce = {"op": "produce", "topic": "t", "partition": 1, "count": 1}
    broker = {"delete.topic.enable": deletes}
    assert taken(TOPIC, delete, TOPIC, broker=broker) == deletes
    for after in (produce, delete, {"op": "touch_topic", "topic": "t"}):
        assert taken(TOPIC, delete, after, broker=broker) == (not deletes)


def test_the_scenarios_of_a_folder_come_by_name_without_the_outputs_of_runs(tmp_path):
    names = [f"{number:02}.json" for number in range(30)]
    for name in (*names[::7], *names[::-1], "03.actual.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    found = [path.name for path in files_of([str(tmp_path), str(tmp_path / "03.actual.json")])]
    assert found == [*names, "03.actual.json"]


def test_an_output_has_a_line_for_each_value_and_letters_as_they_are(tmp_path):
    """As the expected results in shared/golden/zk08."""
    good = scenario(TOPIC, START, {"op": "settle", "point": 1, "at": 20_000})
    (tmp_path / "gé.json").write_text(json.dumps(good | {"name": "gé"}), encoding="utf-8")
    coterie_ok("designs", "run", tmp_path / "gé.json", "--out", tmp_path / "out")
    (path,) = (tmp_path / "out").iterdir()
    lines = path.read_text("utf-8").split("\n")
    assert lines[:3] == ["{", ' "name": "gé",', ' "points": [']
    assert lines[-3:] == [" ]", "}", ""]


def test_the_command_says_one_line_for_each_wrong_file_and_runs_the_others(tmp_path):
    good = scenario(TOPIC, START, {"op": "settle", "point": 1, "at": 20_000})
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "op.json").write_text(json.dumps(scenario({"op": "explode"})))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "bytes.json").write_bytes(b"\xff")
    names = ["good", "op", "list", "text", "deep", "bytes", "missing"]
    ran = coterie(
        "designs", "run", *(f"{name}.json" for name in names), "--out", "out", cwd=tmp_path
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "coterie: op.json: events[0].op: unknown op 'explode'",
        "coterie: list.json: a scenario is an object, not [1]",
        "coterie: text.json: not JSON: Expecting property name enclosed in double quotes:"
        " line 1 column 2 (char 1)",
        "coterie: deep.json: nested too deeply",
        "coterie: bytes.json: not text: the byte 0xff is not UTF-8",
        "coterie: missing.json: No such file or directory",
        "1 run, 6 failed",
    ]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.actual.json"]


def test_the_command_replaces_nothing_unasked(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(scenario()))
    for options, status in (((), 0), ((), 1), (("--overwrite",), 0)):
        ran = coterie("designs", "run", "s.json", "--out", "out", *options, cwd=tmp_path)
        assert ran.returncode == status
    assert json.loads((tmp_path / "out/s.actual.json").read_text()) == {"name": "s", "points": []}


def test_an_output_is_a_text_of_lines_with_names_as_they_are(tmp_path):
    document = {"name": "gr\u00f6\u00dfe", "events": []}
    (tmp_path / "s.json").write_text(json.dumps(document))
    coterie_ok("designs", "run", "s.json", "--out", "out", cwd=tmp_path)
    text = (tmp_path / "out/s.actual.json").read_text(encoding="utf-8")
    assert text == '{\n "name": "gr\u00f6\u00dfe",\n "points": []\n}\n'


def test_an_output_that_cannot_be_written_is_named_not_the_scenario(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(scenario()))
    (tmp_path / "file").touch()
    ran = coterie("designs", "run", "s.json", "--out", "file/out", cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[0] == "coterie: file/out/s.actual.json: Not a directory"


def test_a_scenario_that_comes_with_coterie_runs_by_its_name_but_a_folder_of_that_name_is_the_users(
    tmp_path,
):
    ran = coterie("designs", "run", "herd", "--out", "out", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "1 run, 0 failed\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["herd.actual.json"]
    (tmp_path / "herd").mkdir()
    ran = coterie("designs", "run", "herd", "--out", "out2", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "coterie: herd: holds no file that ends in .json\n")
