"""Leftovers of a killed process are removed by the next one; files in use are not."""

import os
import signal
import subprocess
import sys

import pytest

from coterie.base import atomic_file
from coterie.cli.output_file import whole_file
from coterie.cli.output_folder import put_in_place, whole_folder

BEGIN = """
import os, signal, sys
from coterie.cli.output_file import whole_file
from coterie.cli.output_folder import whole_folder
kind, out = sys.argv[1:]
with {"file": whole_file, "folder": whole_folder}[kind](out, overwrite=False) as part:
    if kind == "folder":
        (part / "tables").mkdir()
        part = part / "tables" / "part"
    part.write_text("half")
    print("begun", flush=True)
    sys.stdin.read()
"""
MAKERS = {"file": whole_file, "folder": whole_folder}


@pytest.fixture(params=MAKERS)
def kind(request):
    return request.param


@pytest.fixture
def writing(tmp_path, kind):
    """A process that is writing an output ``out``."""
    command = [sys.executable, "-c", BEGIN, kind, tmp_path / "out"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def write(kind, out):
    with MAKERS[kind](str(out), overwrite=False) as part:
        names = sorted(entry.name for entry in part.parent.iterdir())
        if kind == "folder":
            (part / "groups.json").touch()
    return names


def hidden(folder):
    return [entry.name for entry in folder.iterdir() if entry.name.startswith(".")]


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path, kind, writing):
    kill(writing)
    (left,) = hidden(tmp_path)
    assert left not in write(kind, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_what_another_process_writes_stays(tmp_path, kind, writing):
    (theirs,) = hidden(tmp_path)
    assert theirs in write(kind, tmp_path / "out")
    assert hidden(tmp_path) == [theirs]


def test_what_is_of_another_name_host_or_kind_stays(tmp_path, kind, writing, monkeypatch):
    kill(writing)
    (left,) = hidden(tmp_path)
    others = [f"{left}.txt", left.replace(".out.", ".output.", 1), ".out.1234.partial"]
    for name in others:
        (tmp_path / name).touch()
    write(kind, tmp_path / "another")
    monkeypatch.setattr(atomic_file, "_machine", lambda: ("elsewher", "somewher"))
    write(kind, tmp_path / "out")
    assert sorted(hidden(tmp_path)) == sorted([left, *others])


@pytest.mark.parametrize("changed", [0, 1])
def test_the_same_host_or_the_same_kernel_is_enough(tmp_path, kind, writing, monkeypatch, changed):
    """The kernel changes when a host is rebooted, the name when a container is replaced."""
    kill(writing)
    here = list(atomic_file._machine())
    here[changed] = "changed0"
    monkeypatch.setattr(atomic_file, "_machine", lambda: tuple(here))
    write(kind, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_an_output_that_was_replaced_goes_only_where_there_is_a_newer_one(tmp_path):
    out = tmp_path / "out"
    before = atomic_file.temporary_name(out, atomic_file.REPLACED)
    before.mkdir()
    (before / "only").touch()
    write("folder", tmp_path / "another")
    with pytest.raises(KeyError), MAKERS["folder"](str(out), overwrite=False):
        raise KeyError
    assert (before / "only").exists()
    write("folder", out)
    with MAKERS["folder"](str(out), overwrite=True) as part:
        (part / "commits.jsonl").touch()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["another", "out"]
    assert [entry.name for entry in out.iterdir()] == ["commits.jsonl"]


def test_one_that_was_taken_away_before_it_was_held_is_made_again(tmp_path):
    made, times = tmp_path / "made", []

    def make():
        times.append(len(times))
        made.mkdir()
        if len(times) == 1:
            made.rmdir()

    with atomic_file.create_locked(tmp_path / "out", make, made):
        assert made.is_dir()
    assert times == [0, 1]


def test_the_folder_that_is_put_in_place_leaves_nothing(tmp_path):
    target, sibling = tmp_path / "out", tmp_path / "sibling"
    for folder in (target, sibling):
        folder.mkdir()
        (folder / folder.name).touch()
    put_in_place(sibling, target)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(target) == ["sibling"]
