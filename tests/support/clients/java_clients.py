"""Kafka's Java clients for the scenarios: jars by Maven, programs by javac, once for each version.

They are built into build/clients/java-VERSION, and again after a source changes. If Maven, a JDK or
the jars are missing, the test is skipped by name. To load Kafka's classes takes a program longer
than its work, so they are archived (Java's class data sharing), if this Java can do so.
"""

import fcntl
import functools
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from support import jvm
from support.clients.builds import BUILD, HERE, OTHERS, run, sources

NEWEST = "4.4.0"
VERSIONS = [NEWEST, *(pytest.param(each, marks=OTHERS) for each in ("4.1.1", "3.9.1"))]
SOURCES = HERE / "java" / "kafka"
OPTIONS = ["-Xshare:auto", "-Xmx256m"]
OPTIONS += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Duser.timezone=UTC"]
CLIENTS = re.compile(r"org/apache/kafka/(clients|common)/.*\.class$")


def stale(made, of):
    """Whether something has to be built."""
    return not made.exists() or made.stat().st_mtime < max(each.stat().st_mtime for each in of)


@functools.cache
def installed(version):
    """The jars of a version of Kafka and the programs, built: options of Java."""
    for tool in ("java", "javac", "jar", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no Java clients: {tool} is not installed")
    home = BUILD / f"java-{version}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:  # the tests of two files may run at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build(home, version)


def build(home, version):
    """Build what is missing or older than its sources."""
    jars, programs, archive = home / "classpath", home / "programs.jar", home / "classes.jsa"
    if stale(jars, [SOURCES / "pom.xml"]) or not all(map(exists, jars.read_text().split(":"))):
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={jars}"]
        command = ["mvn", "-q", "-B", *goal, f"-Dkafka.version={version}"]
        ran = run(command, SOURCES, None)
        if ran.returncode:
            pytest.skip(f"no Java clients: Maven brought no jars: {ran.stdout.strip()[:200]}")
        jars.touch()
    classpath = ["-cp", f"{programs}:{jars.read_text()}"]
    texts = [each for each in sources(SOURCES) if each.suffix == ".java"]
    if stale(programs, [*texts, jars]):
        classes = home / "classes"
        shutil.rmtree(classes, ignore_errors=True)
        archive.unlink(missing_ok=True)
        for command in (
            ["javac", "-nowarn", "-d", classes, "-cp", jars.read_text(), *texts],
            ["jar", "--create", "--file", programs, "-C", classes, "."],  # no archive of a folder
        ):
            ran = run(command, SOURCES, None)
            assert ran.returncode == 0, ran.stderr
        archive_classes(archive, jars.read_text().split(":"), classpath)
    return [*jvm.options(archive), *classpath]


def archive_classes(archive, jars, classpath):
    """Archive Java's usual classes and those of Kafka's clients."""
    usual = Path(shutil.which("java")).resolve().parents[1] / "lib/classlist"
    if not usual.exists():
        return
    names = usual.read_text().splitlines()
    for jar in jars:
        if Path(jar).name.startswith("kafka-clients-"):
            with zipfile.ZipFile(jar) as packed:
                names += [name[:-6] for name in packed.namelist() if CLIENTS.match(name)]
    listed = archive.with_suffix(".list")
    listed.write_text("\n".join(names))
    dump = ["-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={archive}"]
    if run(["java", *jvm.SHORT_LIVED, *dump, *classpath], SOURCES, None).returncode:
        archive.unlink(missing_ok=True)


def exists(jar):
    return Path(jar).exists()


def java(version, main):
    """The command of a program, its arguments apart."""
    return ["java", *OPTIONS, *installed(version), main]
