"""KafkaJS against the server. ``COTERIE_ALL_CLIENTS=1`` tries what takes it seconds too."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from support.clients.builds import OTHERS, node, rows
from support.clients.scenarios import RELEASES, SCENARIOS, play, play_killed, read_back
from support.doc_pages import blocks
from support.patience import HANG_S

# It has no cooperative assignor and no instance ids; it divides by an assignor of its own, and
# deletes no offsets.
ROUND_ROBIN = [
    {**fact, "protocol": "RoundRobinAssigner"} if "protocol" in fact else fact
    for fact in SCENARIOS["admin"].lacking("left").facts
]
# lz4js, the usual codec, writes frames with dependent blocks, which a broker refuses.
CODECS = ("none", "gzip", "snappy", "zstd")
ROWS = rows(
    "cooperative",
    "static",
    admin=replace(SCENARIOS["admin"], facts=ROUND_ROBIN),
    records=replace(SCENARIOS["records"], facts=read_back(*CODECS), arguments=CODECS),
)
SLOW = ("admin",)  # altering offsets is a fetch that waits for five seconds


@pytest.fixture(scope="module")
def client():
    return node("kafkajs", ROWS)


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=OTHERS) if name in SLOW else name for name in ROWS]
)
def test_kafkajs_sees_what_kafka_shows_it(client, name, kafka):
    play(client, name, kafka=kafka)


def test_the_session_of_a_kafkajs_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)


def free_port():
    """An unused port; the example names one."""
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        return str(bound.getsockname()[1])


def test_the_example_of_the_testing_page_runs_by_control(client):
    (code,) = blocks("testing-clients.md", "js")
    assert code.count("127.0.0.1:9180") == 2
    assert 'ask("/fail"' in code
    assert ".count, 1)" in code
    home = Path(client.command[-1]).parent  # its packages lie there
    (home / "example.mjs").write_text(code.replace("9180", free_port()), "utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        ["node", "example.mjs"], cwd=home, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
