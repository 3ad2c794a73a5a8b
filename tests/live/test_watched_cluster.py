"""``coterie watch --bootstrap-server``: a cluster is followed, whatever happens to it."""

import signal
import subprocess

import pytest

pytest.importorskip("aiokafka")

from coterie.server import Broker
from support.commandline import COTERIE, coterie_ok, default_sigint, fails
from support.server.asking import commit
from support.server.groups_of_a_broker import TOPIC, commit_offsets, copied, produce, stored
from support.server.playing import play
from support.server.sockets import ask, connect, free_port
from support.watch.watch_process import Watching, watching

SETTINGS = {"offsets.topic.num.partitions": 4}
OFFSET = 'kafka_consumergroup_current_offset{consumergroup="a",topic="orders",partition="0"} '
LAG = 'kafka_consumergroup_lag{consumergroup="a",topic="orders",partition="0"} '


@pytest.fixture
def broker():
    play()  # skips a test without the data before it starts a process
    with Broker(SETTINGS, topics={"orders": 2}) as made:
        yield made


def at(broker):
    return ("--bootstrap-server", broker.bootstrap_servers)


def wait_for_sample(watch, sample):
    while sample not in watch.samples():
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_commits_are_shown_and_a_signal_ends_it_with_status_0(broker, number):
    commit_offsets(broker, "a", 3)
    with watching(*at(broker)) as watch:
        assert OFFSET + "2" in watch.samples()
        commit_offsets(broker, "a", 10)
        wait_for_sample(watch, OFFSET + "9")
        health = watch.health()
        assert (health["ok"], health["behind_offsets"]) == (True, 0)
        status, error = watch.end(number)
        assert status == 0
        assert error.endswith("; following\n")


def test_totals_and_the_copy_survive_kill_9(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    with watching(*at(broker), "--data", tmp_path) as watch:
        watch.end(signal.SIGKILL)
    commit_offsets(broker, "a", 10)
    with watching(*at(broker), "--data", tmp_path) as watch, watching(*at(broker)) as other:
        assert watch.samples() == other.samples()
    assert copied(tmp_path / "copy") == stored(broker)
    shown = coterie_ok("metrics", tmp_path / "copy").stdout
    assert OFFSET + "9" in shown


def test_the_lag_is_that_of_the_last_sample(broker):
    produce(broker, "orders", 0, 20)
    commit_offsets(broker, "a", 13)  # the last offset is 12
    with watching(*at(broker), "--sample-end-offsets", 1) as watch:
        wait_for_sample(watch, LAG + "8")
        commit_offsets(broker, "a", 1, first=15)
        wait_for_sample(watch, LAG + "5")
        produce(broker, "orders", 0, 20)
        wait_for_sample(watch, LAG + "25")


def test_a_topic_that_is_not_there_yet_is_waited_for(broker):
    """As of a cluster to which no group has committed."""
    command = [*COTERIE, "watch", *at(broker), "--listen", "127.0.0.1:0", "--interval", "0.05"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    watch = object.__new__(Watching)
    watch.process, watch.url = process, process.stdout.readline().split()[-1]
    reason = "the cluster has no topic __consumer_offsets"
    assert process.stderr.readline() == f"coterie: {reason}; trying again until it is there\n"
    status, text = watch.get("/healthz")
    assert (status, reason in text) == (503, True)
    commit_offsets(broker, "a", 3)
    assert process.stdout.readline() == "ready\n"
    assert watch.get("/healthz")[0] == 200
    assert watch.end(signal.SIGTERM)[0] == 0


COMMITS = 'kafka_consumer_group_commits_total{group="a",topic="orders",partition="0"} '


def make_again(broker):
    """Make the offsets topic again, as an administrator does who has lost it."""
    broker._thread_here().call(lambda running: running.cluster.topics.delete(TOPIC))


@pytest.mark.parametrize("has_data", [True, False])
def test_a_topic_that_is_made_again_is_followed_and_its_totals_go_on(broker, tmp_path, has_data):
    commit_offsets(broker, "a", 5)
    data = ("--data", tmp_path) if has_data else ()
    with watching(*at(broker), *data) as watch:
        assert COMMITS + "5" in watch.samples()
        make_again(broker)
        commit_offsets(broker, "a", 3)  # fewer than before: they have offsets of counted records
        wait_for_sample(watch, COMMITS + "8")
        status, error = watch.end(signal.SIGTERM)
        (line,) = [line for line in error.splitlines() if "made again" in line]
        assert (status, f"coterie: topic {TOPIC} was made again; its copy begins anew" in line) == (
            0,
            True,
        )
    if has_data:
        commit_offsets(broker, "a", 1)
        with watching(*at(broker), *data) as watch:
            assert COMMITS + "9" in watch.samples()


@pytest.mark.parametrize("api", ["Fetch", "Metadata"])
def test_a_leader_that_changes_is_looked_up_again(broker, api):
    commit_offsets(broker, "a", 3)
    with watching(*at(broker)) as watch:
        moved = broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
        lost = broker.fail(api, disconnect=True)
        commit_offsets(broker, "a", 10)
        wait_for_sample(watch, OFFSET + "9")
        assert moved.count == lost.count == 1
        assert watch.end(signal.SIGTERM)[0] == 0


def test_a_broker_that_is_away_makes_the_health_fail_until_it_is_back(broker):
    commit_offsets(broker, "a", 3)
    with watching(*at(broker)) as watch:
        broker.kill()
        while "no connection" not in watch.get("/healthz")[1]:
            pass
        assert watch.get("/healthz")[0] == 503
        assert OFFSET + "2" in watch.samples()
        broker.start()
        while watch.get("/healthz")[0] == 503:
            pass
        ask(connect(broker), "OffsetCommit", 2, commit("a", "orders", {0: 7}))
        wait_for_sample(watch, OFFSET + "7")
        assert watch.end(signal.SIGTERM)[0] == 0


def test_a_missing_permission_ends_it_with_one_line(broker):
    commit_offsets(broker, "a", 3)
    broker.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    says = "no permission: the user needs READ on the topic"
    fails("watch", *at(broker), "--listen", "127.0.0.1:0", says=says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("LOG", "--bootstrap-server", "h:1"), "give either LOG... or --bootstrap-server"),
        (("LOG", "--sample-end-offsets", "5"), "--sample-end-offsets is for --bootstrap-server"),
        (("LOG", "--command-config", "f"), "--command-config is for --bootstrap-server"),
        (("--bootstrap-server", "h:x"), "HOST:PORT"),
        ((), "Missing argument 'LOG...'; or give --bootstrap-server"),
    ],
)
def test_wrong_use_is_one_line(options, says, tmp_path):
    fails("watch", *options, status=2, says=says)


def test_a_cluster_that_is_not_reached_is_waited_for():
    address = f"127.0.0.1:{free_port()}"
    command = [*COTERIE, "watch", "--bootstrap-server", address, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    line = process.stderr.readline()
    assert line.endswith("no connection (Connection refused); trying again until it is there\n")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
