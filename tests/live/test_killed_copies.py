"""`fetch --follow` and `watch` are killed by SIGKILL a hundred times, over a log that grows.

Each life ends after some commits of a group, drawn by a seed: while it starts, copies, or follows.
The copy is then the broker's log byte for byte, and the totals are those of a watcher that was
never killed.
"""

import os
import random
import signal
import subprocess

import pytest

pytest.importorskip("aiokafka")

from coterie.log.copy_state import read_copy_state
from coterie.server import Broker
from support.commandline import COTERIE, ENVIRONMENT, coterie
from support.server.asking import commit
from support.server.groups_of_a_broker import TOPIC, copied, stored
from support.server.playing import play
from support.server.sockets import ask, connect
from support.watch.watch_process import watching

KILLS = 100
PARTITIONS = 4
COMMITS_MAX = {"not begun": 600, "follows": 60}  # of a life: it starts, or has said that it follows

pytestmark = pytest.mark.slow


class Groups:
    """Groups that commit, one after the other, so that all partitions grow."""

    def __init__(self, broker):
        self.connection, self.count = connect(broker), 0

    def commit(self, count):
        for _ in range(count):
            self.count += 1
            body = commit(f"g{self.count % 7}", "orders", {0: self.count})
            (answered,) = ask(self.connection, "OffsetCommit", 2, body)["topics"]
            assert answered["partitions"][0]["errorCode"] == 0


def killed(command, groups, draw, says):
    """Live until some commits are there; return standard output and error."""
    process, found = subprocess.Popen(
        [*COTERIE, *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | ENVIRONMENT,
    ), ""  # fmt: skip
    try:
        moment = draw.choice(sorted(COMMITS_MAX))
        if moment == "follows":
            while says not in found:
                found += (line := process.stdout.readline())
                assert line, found  # it ended by itself
        groups.commit(draw.randrange(COMMITS_MAX[moment]))
        assert process.poll() is None, process.stdout.read()
    finally:
        process.send_signal(signal.SIGKILL)
        found += process.communicate()[0]
    return found


@pytest.fixture
def broker():
    play()  # skips a test without the data before it starts a process
    settings = {"offsets.topic.num.partitions": PARTITIONS}
    with Broker(settings, topics={"orders": 1}) as made:
        yield made


def at(broker):
    return ("--bootstrap-server", broker.bootstrap_servers)


def test_a_copy_after_a_hundred_kills_is_the_log_byte_for_byte(broker, tmp_path):
    groups, draw = Groups(broker), random.Random(58)
    groups.commit(50)
    out = tmp_path / "copy"
    for _ in range(KILLS):
        said = killed(("fetch", *at(broker), "--out", out, "--follow"), groups, draw, "; following")
        assert "Traceback" not in said
        log = stored(broker)
        assert all(log[number].startswith(data) for number, data in copied(out).items())
    result = coterie("fetch", *at(broker), "--out", out)
    assert result.returncode == 0, result.stderr
    assert copied(out) == stored(broker)
    for number in range(PARTITIONS):
        state = read_copy_state(out / f"{TOPIC}-{number}")
        assert (state.first_offset, state.moves) == (0, ())
        assert state.complete_until_ms is not None


def test_a_watcher_after_a_hundred_kills_knows_what_one_knows_that_was_never_killed(
    broker, tmp_path
):
    groups, draw, saved = Groups(broker), random.Random(59), 0
    groups.commit(50)
    command = ("watch", *at(broker), "--data", tmp_path, "--listen", "127.0.0.1:0")
    with watching(*at(broker)) as other:
        for _ in range(KILLS):
            said = killed((*command, "--interval", "0.05"), groups, draw, "ready\n")
            assert "Traceback" not in said
            assert "is damaged" not in said
            saved += any(tmp_path.glob("*.snapshot"))
        with watching(*at(broker), "--data", tmp_path) as watch:
            watch.look_again()
            other.look_again()
            assert watch.samples() == other.samples()
            assert saved > KILLS // 2
    assert copied(tmp_path / "copy") == stored(broker)
