"""Kafka's Java clients for the scenarios: jars by Maven, programs by javac, once for each version.

They are built into build/clients/java-VERSION, and again after a source changes. If Maven, a JDK or
the jars are missing, the test is skipped by name.
"""

import fcntl
import functools
import shutil
from pathlib import Path

import pytest

from support.clients.builds import BUILD, HERE, OTHERS, run, sources

VERSIONS = ["4.1.1", pytest.param("3.9.1", marks=OTHERS)]
SOURCES = HERE / "java" / "kafka"
# A program runs for a second, so the second compiler would not pay off.
OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
OPTIONS += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Duser.timezone=UTC"]


def stale(made, of):
    """Whether something has to be built."""
    return not made.exists() or made.stat().st_mtime < max(each.stat().st_mtime for each in of)


@functools.cache
def classpath(version):
    """The jars of a version of Kafka and the programs, built."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no Java clients: {tool} is not installed")
    home = BUILD / f"java-{version}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:  # the tests of two files may run at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build(home, version)


def build(home, version):
    """Build what is missing or older than its sources."""
    jars, classes = home / "classpath", home / "classes"
    if stale(jars, [SOURCES / "pom.xml"]) or not all(map(exists, jars.read_text().split(":"))):
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={jars}"]
        command = ["mvn", "-q", "-B", *goal, f"-Dkafka.version={version}"]
        said = run(command, SOURCES, None)
        if said.returncode:
            pytest.skip(f"no Java clients: Maven brought no jars: {said.stdout.strip()[:200]}")
        jars.touch()
    programs = [each for each in sources(SOURCES) if each.suffix == ".java"]
    if stale(classes, [*programs, jars]):
        shutil.rmtree(classes, ignore_errors=True)
        options = ["-nowarn", "-d", classes, "-cp", jars.read_text()]
        said = run(["javac", *options, *programs], SOURCES, None)
        assert said.returncode == 0, said.stderr
    return f"{classes}:{jars.read_text()}"


def exists(jar):
    return Path(jar).exists()


def java(version, main):
    """The command of a program, its arguments apart."""
    return ["java", *OPTIONS, "-cp", classpath(version), main]
