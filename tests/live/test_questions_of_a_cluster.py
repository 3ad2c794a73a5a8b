"""``--bootstrap-server`` in the place of LOG: the answers are those of a copy."""

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("aiokafka")

from coterie.messages import partition_for
from coterie.server import Broker
from support.commandline import COTERIE, coterie, coterie_ok, default_sigint, fails
from support.server.groups_of_a_broker import commit_offsets, join_alone, partitions_fetched

SETTINGS = {"offsets.topic.num.partitions": 4}


@pytest.fixture(scope="module")
def broker():
    with Broker(SETTINGS, topics={"orders": 2}) as made:
        for group in ("payments", "billing"):
            commit_offsets(made, group, 12)
        yield made


@pytest.fixture(scope="module")
def copy(broker, tmp_path_factory):
    out = tmp_path_factory.mktemp("copies") / "copy"
    coterie_ok("fetch", "--bootstrap-server", broker.bootstrap_servers, "--out", out)
    return out


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary copies."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


QUESTIONS = [
    ("groups", "--list", "--state"),
    ("groups", "--describe", "--group", "payments"),
    ("explain", "--group", "payments"),
    ("expire", "--now", "1796133900000"),
    ("growth",),
    ("audit",),
    ("records", "--group", "payments"),
    ("verify",),
    ("metrics",),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_question_of_a_cluster_is_answered_as_of_a_copy_and_leaves_nothing(
    broker, copy, temporary, question
):
    command, *options = question
    of_cluster = coterie_ok(command, "--bootstrap-server", broker.bootstrap_servers, *options)
    of_copy = coterie_ok(command, copy, *options)
    assert of_cluster.stdout == of_copy.stdout.replace(str(copy), broker.bootstrap_servers)
    assert not list(temporary.iterdir())


def test_a_history_of_a_cluster_is_rehearsed(temporary):
    with Broker(SETTINGS, topics={"orders": 2}) as broker:
        join_alone(broker, "payments", {"orders": [0, 1]})
        at = ("--bootstrap-server", broker.bootstrap_servers)
        done = coterie_ok(
            "rehearse", *at, "--group", "payments", "--plays", "1", "--format", "json"
        )
    (row,) = json.loads(done.stdout)
    assert row["in_log"] >= 1
    assert row["same_members"] == row["records_in_log"]
    assert not list(temporary.iterdir())


def test_a_place_in_a_cluster_is_named_by_the_cluster(temporary):
    """The temporary copy is gone when a reader sees its name."""
    with Broker(SETTINGS, topics={"orders": 2}) as broker:
        commit_offsets(broker, "payments", 3)
        commit_offsets(broker, "payments", 1)  # a rewind
        servers = broker.bootstrap_servers
        at = ("--bootstrap-server", servers)
        found = coterie("audit", *at, "--format", "json")
        report = coterie_ok("report", *at, "--format", "markdown").stdout
        hint = fails("explain", *at, "--group", "nobody", says="`coterie groups --list` names")
    (row,) = json.loads(found.stdout)
    folder = f"{servers}/__consumer_offsets-{partition_for('payments', 4)}"
    assert row["file"] == f"{folder}/{0:020}.log"
    assert f"From {servers}." in report
    assert str(temporary) not in found.stdout + report + hint.stderr


def test_only_the_partition_of_the_group_is_fetched(broker, temporary):
    before = len(broker.requests())
    at = ("--bootstrap-server", broker.bootstrap_servers)
    coterie_ok("explain", *at, "--group", "payments")
    assert partitions_fetched(broker.requests()[before:]) == {partition_for("payments", 4)}


def test_a_pattern_of_groups_is_answered_from_all_partitions(broker, temporary):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    shown = coterie_ok("growth", *at, "--group", "*i*", "--format", "csv").stdout
    assert "billing" in shown
    assert "payments" not in shown


def test_a_log_and_a_cluster_exclude_each_other_and_one_is_needed(broker, copy):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    fails("audit", copy, *at, status=2, says="give either LOG... or --bootstrap-server")
    fails("audit", status=2, says="Missing argument 'LOG...'")
    fails("audit", copy, "--command-config", "x", status=2, says="is for --bootstrap-server")


def test_an_output_may_lie_anywhere(broker, temporary, tmp_path):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    coterie_ok("audit", *at, "--format", "json", "-o", tmp_path / "found.json")
    assert Path(tmp_path / "found.json").read_text().startswith("[")


@pytest.mark.parametrize(("hangup", "status"), [(signal.SIG_DFL, 143), (signal.SIG_IGN, 130)])
def test_a_hangup_ends_a_question_and_leaves_nothing_unless_it_is_ignored(
    broker, temporary, hangup, status
):
    def start():
        default_sigint()
        signal.signal(signal.SIGHUP, hangup)

    slow = broker.fail("Fetch", delay_ms=3_600_000)
    at = ("--bootstrap-server", broker.bootstrap_servers)
    process = subprocess.Popen(
        [*COTERIE, "groups", *at, "--list"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)}, preexec_fn=start,
    )  # fmt: skip
    while not slow.count:
        broker.requests()
    process.send_signal(signal.SIGHUP)
    if hangup == signal.SIG_IGN:
        process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == status
    assert not list(temporary.iterdir())
