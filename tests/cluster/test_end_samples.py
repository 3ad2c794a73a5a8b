"""Samples of end offsets beside a copy: what `lag` makes of them."""

import csv
import json
import subprocess

import pytest

pytest.importorskip("aiokafka")

from coterie.messages import encode_batch
from coterie.server import Broker
from support.commandline import COTERIE, coterie_ok, default_sigint
from support.server.asking import commit
from support.server.groups_of_a_broker import commit_offsets
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4}
TOPICS = {"orders": 2, "clicks": 1, "unread": 1}


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics=TOPICS) as made:
        yield made


def produce(broker, topic, partition, count):
    data = encode_batch([(number, 1_000, b"k", b"v") for number in range(count)])
    part = {"index": partition, "records": data}
    body = {"acks": 1, "timeoutMs": 5000, "topicData": [{"name": topic, "partitionData": [part]}]}
    (answered,) = ask(connect(broker), "Produce", 7, body)["responses"]
    assert answered["partitionResponses"][0]["errorCode"] == 0


def samples(out):
    with open(out / "end-offsets.csv", newline="") as file:
        return [(row["topic"], row["partition"], row["offset"]) for row in csv.DictReader(file)]


def fetch(broker, out, *options):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    return ("fetch", *at, "--out", out, "--sample-end-offsets", 3600, *options)


def test_a_sample_has_the_topics_that_groups_commit_to_and_lag_reads_it(broker, tmp_path):
    produce(broker, "orders", 0, 20)
    produce(broker, "unread", 0, 5)
    commit_offsets(broker, "a", 13)  # the last offset is 12
    coterie_ok(*fetch(broker, tmp_path))
    assert samples(tmp_path) == [("orders", "0", "20"), ("orders", "1", "0")]
    ends = ("--end-offsets", tmp_path / "end-offsets.csv", "--format", "json")
    rows = json.loads(coterie_ok("lag", tmp_path, *ends).stdout)
    assert [(row["partition"], row["lag"], row["status"]) for row in rows] == [(0, 8, "ok")]


def test_a_later_fetch_appends_and_remembers_the_topics_of_the_copy(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    coterie_ok(*fetch(broker, tmp_path))
    produce(broker, "orders", 1, 4)
    ask(connect(broker), "OffsetCommit", 2, commit("b", "clicks", {0: 0}))
    coterie_ok(*fetch(broker, tmp_path))
    assert samples(tmp_path) == [
        *(("orders", "0", "0"), ("orders", "1", "0")),
        *(("clicks", "0", "0"), ("orders", "0", "0"), ("orders", "1", "4")),
    ]


def test_following_samples_from_when_the_copy_is_complete(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    command = [*COTERIE, *map(str, fetch(broker, tmp_path, "--follow"))]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    assert process.stderr.readline().endswith("; following\n")
    while not (tmp_path / "end-offsets.csv").exists():
        broker.requests()
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    assert samples(tmp_path) == [("orders", "0", "0"), ("orders", "1", "0")]
