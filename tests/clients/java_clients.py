"""Kafka's Java clients for the scenarios: jars by Maven, programs by javac, once for each version.

What is built lies in build/clients/java-VERSION, and is built again when a source changes. Where
Maven, a JDK or the jars are missing, the test that asks is skipped by name.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = pytest.mark.skipif(
    not os.environ.get("COTERIE_ALL_CLIENTS"), reason="needs COTERIE_ALL_CLIENTS=1"
)
VERSIONS = ["4.1.1", pytest.param("3.9.1", marks=OTHERS)]
SOURCES = Path(__file__).parent / "java" / "kafka"
# A program lives for a second: it runs no longer than the first compiler takes.
OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
OPTIONS += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Duser.timezone=UTC"]


def stale(made, sources):
    """Whether something has to be made, first or again."""
    return not made.exists() or made.stat().st_mtime < max(each.stat().st_mtime for each in sources)


@functools.cache
def classpath(version):
    """The jars of a version of Kafka and the programs, built."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no Java clients: {tool} is not installed")
    home = ROOT / "build" / "clients" / f"java-{version}"
    home.mkdir(parents=True, exist_ok=True)
    jars, classes = home / "classpath", home / "classes"
    if stale(jars, [SOURCES / "pom.xml"]) or not all(map(exists, jars.read_text().split(":"))):
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={jars}"]
        said = run("mvn", "-q", "-B", *goal, f"-Dkafka.version={version}")
        if said.returncode:
            pytest.skip(f"no Java clients: Maven brought no jars: {said.stdout.strip()[:200]}")
        jars.touch()
    sources = sorted(SOURCES.glob("*.java"))
    if stale(classes, [*sources, jars]):
        shutil.rmtree(classes, ignore_errors=True)
        options = ["-nowarn", "-d", classes, "-cp", jars.read_text()]
        said = run("javac", *options, *sources)
        assert said.returncode == 0, said.stderr
    return f"{classes}:{jars.read_text()}"


def exists(jar):
    return Path(jar).exists()


def run(*command):
    told = [str(part) for part in command]
    return subprocess.run(told, cwd=SOURCES, capture_output=True, text=True, check=False)


def java(version, main):
    """The command of a program, its arguments apart."""
    return ["java", *OPTIONS, "-cp", classpath(version), main]
