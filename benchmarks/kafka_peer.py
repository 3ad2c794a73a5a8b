"""Kafka's own classes in a warm JVM: built once by Maven, run as a process for each measurement.

There are two peers: Kafka 3.9, and 4.4 for consumer groups.

The process prints the seconds of each round, measured inside it; they become the rounds of the
benchmark, so that one table holds all. What is missing (Maven, a JDK, the jars) is named and the
benchmark skipped. ``COTERIE_JAVA_OPTIONS`` adds options of the JVM.
"""

import functools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

PEERS = Path(__file__).parent / "peers"


class Peer(NamedTuple):
    """A Maven project, and its main class."""

    name: str
    project: Path
    main: str

    @property
    def classes(self):
        return self.project / "target" / "classes"

    @property
    def classpath(self):
        return self.project / "target" / "classpath"


KAFKA_3_9 = Peer("Kafka 3.9.1", PEERS / "kafka", "coterie.peers.Main")
KAFKA_4 = Peer("Kafka 4.4.0", PEERS / "kafka-4", "coterie.peers.ConsumerMain")
LARGE = 4_000_000  # so many objects of Kafka's leave the collector no room in the usual heap


def newest_source(peer):
    """When the newest source of a peer changed; both use sources of ``peers/kafka``."""
    paths = [peer.project / "pom.xml", *peer.project.glob("src/**/*.java")]
    paths += KAFKA_3_9.project.glob("src/**/*.java")
    return max(path.stat().st_mtime for path in paths)


@functools.cache
def why_missing(peer=KAFKA_3_9):
    """None where the peer is built, else one line that says what it lacks."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    main = peer.classes / f"{peer.main.replace('.', '/')}.class"
    if main.exists() and peer.classpath.exists() and (main.stat().st_mtime >= newest_source(peer)):
        return None
    goals = ["clean", "compile", "dependency:build-classpath"]
    built = subprocess.run(
        ["mvn", "-q", "-B", *goals], cwd=peer.project, capture_output=True, text=True, check=False
    )
    if built.returncode:
        lines = [line for line in built.stdout.splitlines() if "ERROR" in line]
        return f"Maven did not build it: {lines[0] if lines else built.stderr[-200:]}"
    return None


def classpath(peer=KAFKA_3_9):
    """Where Java finds the peer and Kafka's own tools, once it is built."""
    return f"{peer.classes}{os.pathsep}{peer.classpath.read_text()}"


def run(work, size, *, warm, rounds, files=(), cpu=False, peer=KAFKA_3_9):
    """What the JVM printed: seconds (median), rounds, answer, version."""
    if missing := why_missing(peer):
        pytest.skip(f"{peer.name}: {missing}")
    heap = "-Xmx14g" if size >= LARGE else "-Xmx6g"
    options = [heap, "-Xshare:auto", *os.environ.get("COTERIE_JAVA_OPTIONS", "").split()]
    options.append(f"-Dcoterie.cpu={str(cpu).lower()}")
    arguments = [work, str(size), str(warm), str(rounds), *map(str, files)]
    done = subprocess.run(
        ["java", *options, "-cp", classpath(peer), peer.main, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.fail(f"{peer.name}: {done.stderr.strip().splitlines()[:3]}")
    return json.loads(done.stdout)


class Replayed:
    """A clock that passes through measured seconds: two readings a round."""

    def __init__(self, rounds):
        self.readings = (reading for seconds in rounds for reading in (0.0, seconds))

    def __call__(self):
        return next(self.readings)


def measure(benchmark, work, size, *, warm, rounds, files=(), peer=KAFKA_3_9):
    """Run the JVM, hand its rounds to the benchmark, return its answer.

    Under ``--benchmark-timer=time.process_time`` the JVM measures its thread's CPU time too.
    """
    cpu = benchmark._timer is time.process_time
    found = run(work, size, warm=warm, rounds=rounds, files=files, cpu=cpu, peer=peer)
    if benchmark.enabled:
        benchmark._timer = Replayed(found["rounds"])
    benchmark.pedantic(lambda: None, rounds=len(found["rounds"]), iterations=1)
    benchmark.extra_info["version"] = found["version"]
    return found["answer"]
