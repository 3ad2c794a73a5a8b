"""``coterie undo --execute``: what is committed, what is saved first, and when it refuses."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("aiokafka")

from coterie.live.cluster_errors import Unavailable
from coterie.live.connections import Connection
from coterie.server import Broker
from support.commandline import COTERIE, coterie, coterie_ok, default_sigint, fails
from support.server.asking import commit
from support.server.groups_of_a_broker import join_alone, produce
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
RECORDS = 100
ONE_TRY = "default.api.timeout.ms=1\nretry.backoff.ms=1\n"


@pytest.fixture
def broker():
    with Broker(SETTINGS, clock="virtual", topics={"orders": 2, "clicks": 1}) as made:
        for topic, number in (("orders", 0), ("orders", 1), ("clicks", 0)):
            produce(made, topic, number, RECORDS)
        yield made


def commit_all(broker, group, offsets):
    """Commit offsets {(topic, partition): offset}."""
    for (topic, number), offset in offsets.items():
        (answered,) = ask(
            connect(broker), "OffsetCommit", 2, commit(group, topic, {number: offset})
        )["topics"]
        assert answered["partitions"][0]["errorCode"] == 0


def committed(broker, group):
    body = {"groupId": group, "topics": None}
    return {
        (topic["name"], row["partitionIndex"]): row["committedOffset"]
        for topic in ask(connect(broker), "OffsetFetch", 5, body)["topics"]
        for row in topic["partitions"]
    }


def commit_in_epoch(broker, leader_epoch, offset):
    """Commit an offset of clicks-0, of a record in a leader epoch."""
    body = commit("g", "clicks", {0: offset})
    body["topics"][0]["partitions"][0]["committedLeaderEpoch"] = leader_epoch
    ask(connect(broker), "OffsetCommit", 6, body)


BEFORE = {("orders", 0): 7, ("orders", 1): 8, ("clicks", 0): 9}
WRONG = {("orders", 0): 1, ("orders", 1): 2, ("clicks", 0): 9}


@pytest.fixture
def at_ms(broker):
    """Commit, and then commit what has to be undone; the time between the two."""
    commit_all(broker, "g", BEFORE)
    broker.advance(1_000)
    found = broker.now_ms
    broker.advance(1_000)
    commit_all(broker, "g", WRONG)
    return found


def undo(broker, at_ms, *options, groups=("g",)):
    at = ("--bootstrap-server", broker.bootstrap_servers, "--at", at_ms)
    return ("undo", *at, *(text for group in groups for text in ("--group", group)), *options)


def outcomes(result):
    return {
        (row["topic"], row["partition"]): (row["offset_before"], row["offset"], row["outcome"])
        for row in json.loads(result.stdout)
    }


def test_without_execute_nothing_is_committed(broker, at_ms):
    result = coterie_ok(*undo(broker, at_ms))
    assert result.stdout == "clicks,0,9\norders,0,7\norders,1,8\n"
    assert committed(broker, "g") == WRONG


def test_the_plan_is_committed_and_what_it_replaces_is_saved_as_a_plan(broker, at_ms, tmp_path):
    saved = tmp_path / "before.csv"
    execute = undo(broker, at_ms, "--execute", "--save", saved, "--format", "json")
    result = coterie_ok(*execute)
    assert committed(broker, "g") == BEFORE
    assert outcomes(result) == {
        ("clicks", 0): (9, 9, "unchanged"),
        ("orders", 0): (1, 7, "committed"),
        ("orders", 1): (2, 8, "committed"),
    }
    lines = sorted(saved.read_text().splitlines())
    assert lines == ["clicks,0,9", "orders,0,1", "orders,1,2"]
    assert f"the offsets before are in {saved}" in result.stderr
    assert os.listdir(tmp_path) == ["before.csv"]
    fails(*execute, says=(str(saved), "is there already"))


def test_the_file_of_several_groups_names_them_and_has_a_name_by_default(broker, at_ms, tmp_path):
    commit_all(broker, "h", {("orders", 0): 3})
    broker.advance(1_000)
    execute = undo(broker, broker.now_ms, "--execute", groups=("g", "h"))
    coterie_ok(*execute, cwd=tmp_path)
    (name,) = os.listdir(tmp_path)
    assert name.startswith("offsets-before-")
    lines = (tmp_path / name).read_text().splitlines()
    assert sorted(lines) == ["g,clicks,0,9", "g,orders,0,1", "g,orders,1,2", "h,orders,0,3"]


def test_offsets_go_back_only_with_yes(broker, at_ms, tmp_path):
    """Without a terminal nobody can agree: nothing is written, and one line says so."""
    read_again = {("orders", 0): 20, ("orders", 1): 9, ("clicks", 0): 9}
    commit_all(broker, "g", read_again)
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    back = "group 'g' goes back by 14 offsets in 2 partitions: these records will be read again"
    fails(*execute, says=(back, "nothing was committed (--yes commits it)"))
    assert (committed(broker, "g"), os.listdir(tmp_path)) == (read_again, [])
    result = coterie_ok(*execute, "--yes")
    assert back in result.stderr
    assert committed(broker, "g") == BEFORE
    assert "goes back" not in coterie_ok(*undo(broker, at_ms)).stderr


def test_the_plan_says_that_offsets_go_back_before_it_is_written(broker, at_ms):
    commit_all(broker, "g", {("orders", 0): 20})
    lines = coterie_ok(*undo(broker, at_ms)).stderr.splitlines()
    assert "coterie: group 'g' goes back by 13 offsets in 1 partition: " in "\n".join(lines)
    place = next(at for at, line in enumerate(lines) if "goes back" in line)
    assert place < next(at for at, line in enumerate(lines) if line.startswith("group g: "))


def test_a_group_with_members_is_refused_and_nothing_is_written(broker, at_ms, tmp_path):
    join_alone(broker, "g", {"orders": [0]})
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    fails(*execute, says=("group 'g' is Stable with 1 member", "nothing was committed"))
    assert committed(broker, "g") == WRONG
    assert not os.listdir(tmp_path)


def test_a_member_that_joins_meanwhile_makes_each_partition_fail(broker, at_ms, tmp_path):
    broker.fail("OffsetCommit", error="UNKNOWN_MEMBER_ID")
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    result = coterie(*execute, "--format", "json")
    assert result.returncode == 1
    assert {note for note in (row["note"] for row in json.loads(result.stdout)) if note} == {
        f"orders-{number}: the broker answers UNKNOWN_MEMBER_ID" for number in (0, 1)
    }


def test_an_offset_outside_of_the_log_becomes_its_end_as_with_kafkas_tool(broker, tmp_path):
    commit_all(broker, "g", {("orders", 0): RECORDS + 50})
    broker.advance(1_000)
    at_ms = broker.now_ms
    broker.advance(1_000)
    commit_all(broker, "g", {("orders", 0): 1})
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    fails(*execute, says=("1 partition are beyond the end of the log", "--yes commits it"))
    result = coterie_ok(*execute, "--yes")
    assert committed(broker, "g") == {("orders", 0): RECORDS}
    assert f"150 is not in the partition's log, so it is {RECORDS}" in result.stdout


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "the user needs READ on the topic"),
        ("GROUP_AUTHORIZATION_FAILED", "the user needs READ on the group"),
    ],
)
def test_a_missing_permission_is_the_outcome_of_each_partition(
    broker, at_ms, tmp_path, error, says
):
    broker.fail("OffsetCommit", error=error)
    result = coterie(*undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv"))
    assert result.returncode == 1
    assert result.stdout.count(says) == 2
    assert committed(broker, "g") == WRONG


def test_a_missing_permission_to_look_is_one_line_and_nothing_is_committed(broker, at_ms, tmp_path):
    broker.fail("FindCoordinator", error="GROUP_AUTHORIZATION_FAILED")
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    fails(*execute, says="group 'g': no permission: the user needs DESCRIBE on the group")
    assert (committed(broker, "g"), os.listdir(tmp_path)) == (WRONG, [])


def test_a_coordinator_that_moves_is_looked_up_again(broker, at_ms, tmp_path):
    moved = broker.fail("OffsetCommit", error="NOT_COORDINATOR")
    coterie_ok(*undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv"))
    assert moved.count == 1
    assert committed(broker, "g") == BEFORE


def test_a_coordinator_that_is_gone_is_the_outcome_of_each_partition(broker, at_ms, tmp_path):
    client = tmp_path / "client.properties"
    client.write_text(ONE_TRY)
    broker.fail("OffsetCommit", disconnect=True, times=None)
    options = ("--execute", "--save", tmp_path / "before.csv", "--command-config", client)
    result = coterie(*undo(broker, at_ms, *options, "--format", "json"))
    assert result.returncode == 1
    assert outcomes(result)["orders", 0] == (1, 7, "failed")
    assert sorted((tmp_path / "before.csv").read_text().splitlines())[1] == "orders,0,1"


def test_a_topic_that_is_gone_fails_alone(broker, at_ms, tmp_path):
    ask(connect(broker), "DeleteTopics", 5, {"topicNames": ["clicks"], "timeoutMs": 5000})
    result = coterie(
        *undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv", "--format", "json")
    )
    assert result.returncode == 1
    found = outcomes(result)
    assert found["orders", 0] == (1, 7, "committed")
    assert found["clicks", 0][1:] == (9, "failed")
    rows = json.loads(result.stdout)
    assert rows[0]["note"] == "the cluster has no topic clicks"


def test_a_signal_during_the_commit_shows_what_was_committed(broker, at_ms, tmp_path):
    slow = broker.fail("OffsetCommit", delay_ms=1_000)
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    process = subprocess.Popen(
        [*COTERIE, *map(str, execute), "--format", "csv"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=default_sigint,
    )  # fmt: skip
    while not slow.count:
        broker.requests()
    process.send_signal(signal.SIGINT)
    broker.advance(1_000)
    out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    assert [line.split(",")[5] for line in out.splitlines()[1:]] == [
        *("unchanged", "committed", "committed")
    ]
    assert committed(broker, "g") == BEFORE


def link(place):
    (place / "link").symlink_to(place)


def dangling(place):
    (place / "link.csv").symlink_to(place / "one.csv")


@pytest.mark.parametrize(
    ("prepare", "out", "save", "status", "says"),
    [
        (None, "one.csv", "one.csv", 2, "are one file"),
        (link, "one.csv", "link/one.csv", 2, "are one file"),
        (dangling, "link.csv", "one.csv", 2, "are one file"),
        (dangling, "new.csv", "link.csv", 1, "link.csv: is there already"),
        (lambda place: os.mkfifo(place / "pipe"), "pipe", "new.csv", 1, "not a regular file"),
        (lambda place: os.mkfifo(place / "pipe"), "new.csv", "pipe", 1, "is there already"),
        (lambda place: (place / "folder").mkdir(), "folder", "new.csv", 1, "is a folder"),
        (lambda place: (place / "folder").mkdir(), "new.csv", "folder", 1, "is there already"),
        (None, "none/one.csv", "new.csv", 1, "its folder does not exist"),
        (None, "new.csv", "none/one.csv", 1, "its folder does not exist"),
        (None, "/proc/one.csv", "new.csv", 1, "/proc: No such file"),  # no file can be made there
        (None, "new.csv", "/proc/one.csv", 1, "/proc: No such file"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_commit(
    broker, at_ms, tmp_path, monkeypatch, prepare, out, save, status, says
):
    """With one file for both, the offsets were committed, and the outcomes not written."""
    monkeypatch.chdir(tmp_path)
    if prepare is not None:
        prepare(tmp_path)
    before = os.listdir(tmp_path)
    fails(*undo(broker, at_ms, "--execute", "-o", out, "--save", save), status=status, says=says)
    assert (committed(broker, "g"), os.listdir(tmp_path)) == (WRONG, before)


@pytest.mark.parametrize("output", ["full", "closed", "pipe", "full, and standard error"])
def test_an_output_that_is_not_written_changes_nothing_of_the_exit_status(
    broker, at_ms, tmp_path, output
):
    """Of a commit that was made it was 1; the outcomes are on standard error, if it has room."""
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv", "--format", "csv")
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full, open(writer, "w") as pipe:
        process = subprocess.run(
            [*COTERIE, *map(str, execute)], stdout=pipe if output == "pipe" else full,
            preexec_fn=(lambda: os.close(1)) if output == "closed" else None,
            stderr=full if output == "full, and standard error" else subprocess.PIPE, text=True,
        )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert committed(broker, "g") == BEFORE
    if process.stderr is None:
        return
    assert "coterie: the output was not written: " in process.stderr
    assert len([line for line in process.stderr.splitlines() if " committed " in line]) == 2


@pytest.fixture
def lies(monkeypatch):
    """API -> what changes its responses: a function of the request and the response."""
    found, ask = {}, Connection.ask

    async def lying(connection, api, body):
        answer = await ask(connection, api, body)
        return found[api](body, answer) if api in found else answer

    monkeypatch.setattr(Connection, "ask", lying)
    return found


def offsets_are(change):
    """Change the offsets that ListOffsets answers, but not those of the offsets topic."""

    def lie(body, answer):
        for topic in answer["topics"]:
            timestamp = body["topics"][0]["partitions"][0]["timestamp"]
            for row in topic["partitions"] if topic["name"] != "__consumer_offsets" else ():
                row["offset"] = change(timestamp, row["offset"])
        return answer

    return lie


def topics_are(change):
    """Change what Metadata answers of a topic, but not of the offsets topic."""

    def lie(body, answer):
        if body["topics"][0]["name"] != "__consumer_offsets":
            answer["topics"] = change(answer["topics"])
        return answer

    return lie


def led_by(node, index=lambda number: number):
    def change(topics):
        for part in topics[0]["partitions"]:
            part |= {"leaderId": node, "partitionIndex": index(part["partitionIndex"])}
        return topics

    return change


def twice(name):
    return lambda body, answer: answer | {name: answer[name] * 2}


@pytest.mark.parametrize(
    ("api", "lie", "says"),
    [
        ("ListOffsets", offsets_are(lambda *_: -1), "the broker answers offset -1"),
        (
            "ListOffsets",
            offsets_are(lambda at, offset: offset if at == -2 else -5),
            "the broker answers offset -5",
        ),
        (
            "ListOffsets",
            offsets_are(lambda at, offset: offset if at == -1 else 101),
            "the broker answers that its log begins at 101 and ends at 100",
        ),
        ("Metadata", topics_are(lambda topics: []), "the broker says nothing of it"),
        ("Metadata", topics_are(led_by(99)), "broker 99 is not in the cluster's metadata"),
        ("Metadata", topics_are(led_by(0, lambda number: number - 9)), ""),
        ("OffsetCommit", twice("topics"), "a response about it twice"),
    ],
)
def test_an_odd_answer_is_the_outcome_of_each_partition(
    broker, at_ms, tmp_path, lies, api, lie, says
):
    """An answer of -1 was committed everywhere."""
    lies[api] = lie
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    result = coterie(*execute, "--format", "json", "--yes")
    assert result.returncode == 1
    notes = [row["note"] for row in json.loads(result.stdout) if row["outcome"] == "failed"]
    assert len(notes) >= 2
    assert all(says in note for note in notes)
    if api != "OffsetCommit":
        assert committed(broker, "g") == WRONG


def test_the_look_after_a_commit_shows_what_its_answer_leaves_out(broker, at_ms, tmp_path, lies):
    lies["OffsetCommit"] = lambda body, answer: {"topics": []}
    coterie_ok(*undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv", "--yes"))
    assert committed(broker, "g") == BEFORE


@pytest.mark.parametrize(
    ("api", "lie", "says"),
    [
        ("DescribeGroups", lambda body, answer: {"groups": []}, "0 rows, not with one"),
        ("DescribeGroups", twice("groups"), "2 rows, not with one"),
        ("OffsetFetch", twice("topics"), "a response about it twice"),
        ("FindCoordinator", lambda body, answer: answer | {"nodeId": -1}, "names no coordinator"),
        (
            "FindCoordinator",
            lambda body, answer: answer | {"nodeId": 9, "host": "h" * 300},
            "the host has no address",
        ),
    ],
)
def test_an_odd_answer_to_a_look_is_one_line_and_nothing_is_committed(
    broker, at_ms, tmp_path, lies, api, lie, says
):
    lies[api] = lie
    client = tmp_path / "client.properties"
    client.write_text(ONE_TRY)
    execute = ("--execute", "--save", tmp_path / "before.csv", "--command-config", client)
    fails(*undo(broker, at_ms, *execute), says=says)
    assert (committed(broker, "g"), os.listdir(tmp_path)) == (WRONG, [client.name])


def test_what_was_committed_after_a_lost_answer_is_not_overwritten_and_is_saved(
    broker, at_ms, tmp_path, lies
):
    """The retry of a commit overwrote it, and the file had the offset before."""

    def lost(body, answer):
        del lies["OffsetCommit"]
        commit_all(broker, "g", {("orders", 1): 50})
        raise Unavailable("the connection broke")

    lies["OffsetCommit"] = lost
    saved = tmp_path / "before.csv"
    result = coterie(*undo(broker, at_ms, "--execute", "--save", saved, "--format", "json"))
    assert result.returncode == 1
    assert committed(broker, "g") == BEFORE | {("orders", 1): 50}
    assert outcomes(result) == {
        ("clicks", 0): (9, 9, "unchanged"),
        ("orders", 0): (1, 7, "committed"),
        ("orders", 1): (50, 8, "failed"),
    }
    assert sorted(saved.read_text().splitlines()) == ["clicks,0,9", "orders,0,1", "orders,1,50"]


def test_a_file_that_came_there_meanwhile_is_not_replaced_by_the_outcomes(
    broker, at_ms, tmp_path, lies
):
    out = tmp_path / "out.csv"

    def written(body, answer):
        out.write_text("mine")
        return answer

    lies["OffsetCommit"] = written
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv", "-o", out)
    result = coterie_ok(*execute)
    assert "out.csv: is there already" in result.stderr
    assert result.stderr.count(" committed ") == 2
    assert (committed(broker, "g"), out.read_text()) == (BEFORE, "mine")


def test_all_warnings_come_before_the_commit_and_those_of_lost_records_need_yes(
    broker, tmp_path, lies
):
    """A rewind (orders-0), a log that begins later (orders-1), a topic made again (clicks-0)."""
    commit_all(broker, "g", {("orders", 0): 50, ("orders", 1): 3})
    commit_in_epoch(broker, 7, 500)
    broker.advance(1_000)
    commit_all(broker, "g", {("orders", 0): 9})
    broker.advance(1_000)
    at_ms = broker.now_ms
    broker.advance(1_000)
    now = {("orders", 0): 60, ("orders", 1): 60, ("clicks", 0): 600}
    commit_all(broker, "g", now)
    commit_in_epoch(broker, 0, 600)
    lies["ListOffsets"] = offsets_are(lambda at, offset: 5 if at == -2 else offset)
    risks = (
        "1 partition had gone back",
        "1 partition of a topic that was created again",
        "goes back by 606 offsets in 3 partitions",
        "1 partition are beyond the end of the log",
        "1 partition are below the start of the log",
    )
    execute = undo(broker, at_ms, "--execute", "--save", tmp_path / "before.csv")
    fails(*execute, says=(*risks, "nothing was committed (--yes commits it)"))
    assert (committed(broker, "g"), os.listdir(tmp_path)) == (now, [])
    printed = []

    def looking(body, answer):  # the last time is before the commit
        printed.append(sys.stderr.buffer.getvalue().decode())
        return answer

    lies["OffsetFetch"] = looking
    coterie_ok(*execute, "--yes")
    assert all(text in printed[-1] for text in risks)
    assert committed(broker, "g") == {("orders", 0): 9, ("orders", 1): 5, ("clicks", 0): 100}


@pytest.mark.parametrize(
    "options", [("--execute", "--against-latest"), ("--save", "f"), ("--execute", "--log")]
)
def test_wrong_use_is_one_line(broker, at_ms, tmp_path, options):
    if options[-1] == "--log":
        coterie_ok("fetch", *undo(broker, at_ms)[1:3], "--out", tmp_path / "copy")
        command = ("undo", tmp_path / "copy", "--group", "g", "--at", at_ms, "--execute")
    else:
        command = undo(broker, at_ms, *options)
    fails(*command, status=2, says="--execute")
