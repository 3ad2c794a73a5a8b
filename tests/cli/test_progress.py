"""The progress bar appears on a terminal, after a second, on standard error."""

import io
import re
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from coterie.base import progress_bar
from coterie.cli import copying, logs, progress
from support import commandline
from support.commandline import coterie
from support.golden_data import INCIDENTS
from support.log_writer import batch, commit, group_key, group_value

ERASE = "\x1b[2K"  # the terminal forgets a line
COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as a list of one number."""
    now = [5_000.0]
    monkeypatch.setattr(progress_bar, "perf_counter", lambda: now[0])
    return now


def on_terminal(monkeypatch):
    """Let standard error be a terminal; return it."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def plain(terminal):
    return COLOUR.sub("", terminal.getvalue())


def after_a_second(clock):
    shown = progress.TerminalProgress()
    shown.total(2000)
    clock[0] += 1
    return shown


def test_a_terminal_sees_how_far_it_is(clock, monkeypatch):
    terminal = on_terminal(monkeypatch)
    with after_a_second(clock) as shown:
        shown.advance(500)
        assert "reading" in terminal.getvalue()
        assert " 0.5/2.0 kB" in plain(terminal)  # at once
    assert " 0.5/2.0 kB" in plain(terminal)
    with after_a_second(clock) as shown:
        shown.advance(500)
        shown.advance(700)
        shown.stage("writing")
    assert " 1.2/2.0 kB" in plain(terminal)
    assert "writing" in terminal.getvalue()


def test_a_size_that_is_not_known_is_left_open_until_it_is(clock, monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress.TerminalProgress() as shown:
        clock[0] += 1
        shown.advance(500)
        assert " 500/? bytes" in plain(terminal)
        shown.total(2000)
        shown.advance(700)
    assert " 1.2/2.0 kB" in plain(terminal)


def test_a_copy_has_a_total_by_its_offsets(clock, monkeypatch):
    """A quarter of the offsets took 500 bytes, so all of them will take about 2,000."""
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    with progress.TerminalProgress() as shown:
        copy = copying._Shown(shown, None, False, copying.CopyObserver())
        copy.progress(0, 40)
        copy.appended(3, memoryview(bytes(500)))
        clock[0] += 1
        copy.progress(10, 40)
        assert "fetched 10 of 40 offsets" in plain(terminal)
        assert " 0.5/2.0 kB" in plain(terminal)
    shown_lines = re.split(r"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]", plain(terminal))
    assert max(map(len, shown_lines)) <= 80


def test_the_bar_of_a_listing_is_gone_when_the_command_begins(clock, monkeypatch):
    terminal = on_terminal(monkeypatch)

    @contextmanager
    def lister(paths, where, shown):
        clock[0] += 1
        shown.stage("starting Spark")
        assert "starting Spark" in terminal.getvalue()
        yield paths

    monkeypatch.setattr(logs, "find_entry", lambda entries, engine: lister)
    with logs.listed(logs.Logs(("hdfs://h/log",)), SimpleNamespace(engine="spark")):
        assert "starting Spark" not in terminal.getvalue().rsplit(ERASE, 1)[-1]


def test_a_notebook_shows_a_line_that_is_empty_in_the_end(clock, monkeypatch):
    """Without ipywidgets, which rich's own bar would need."""
    lines = []
    handle = SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))
    shown_in = SimpleNamespace(display=lambda data, raw, display_id: handle)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=shown_in))
    monkeypatch.setitem(sys.modules, "IPython.display", shown_in)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar.ProgressBar() as shown:
        shown.advance(500)
        clock[0] += 1
        shown.advance(500)
        shown.advance(100)  # at once: the browser gets no second message
        shown.total(2_200)
        clock[0] += 1
        shown.advance(0)
    assert lines == ["reading: 1.0 kB", "reading: 1.1 kB of 2.2 kB, 50 %", ""]
    assert sys.stderr.getvalue() == ""


def test_work_of_less_than_a_second_shows_nothing(clock, monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress.TerminalProgress() as shown:
        clock[0] += 0.999
        shown.advance(500)
        assert terminal.getvalue() == ""
        clock[0] += 0.001
        shown.advance(500)
        assert "reading" in terminal.getvalue()


def test_a_file_sees_nothing_but_notices(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with after_a_second(clock) as shown:
        shown.advance(500)
        assert sys.stderr.getvalue() == ""
        shown.notice("the disk is full")
    assert sys.stderr.getvalue() == "coterie: the disk is full\n"


def test_the_bar_goes_before_other_output_and_comes_back_with_the_next_update(clock, monkeypatch):
    terminal = on_terminal(monkeypatch)

    def appended(work, *arguments):
        before = len(terminal.getvalue())
        work(*arguments)
        return terminal.getvalue()[before:]

    with after_a_second(clock) as shown:
        shown.advance(500)
        assert ERASE in appended(shown.clear)
        assert appended(shown.clear) == ""
        assert "reading" in appended(shown.advance, 1)
        bar, line = appended(shown.notice, "wait").rsplit("coterie: ", 1)
        assert (ERASE in bar, line) == (True, "wait\n")
        assert "again" in appended(shown.stage, "again")
        end = len(terminal.getvalue())
    assert ERASE in terminal.getvalue()[end:]


class OnTerminal(io.TextIOWrapper):
    def isatty(self):
        return True


class TerminalForErrors(commandline.Stream):
    """Standard error of a command is a terminal, standard output is none."""

    def __init__(self, like):
        super().__init__(like)
        if like is sys.__stderr__:
            self.text = OnTerminal(self.text.detach(), like.encoding, like.errors)


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "damaged"),
        ("explain", "log", "--format", "csv"),
        ("groups", "log", "--list"),
        ("compare", "log", "damaged", "--format", "csv"),
    ],
    ids=lambda command: command[0],
)
def test_a_bar_on_the_terminal_takes_nothing_from_the_output(command, tmp_path, monkeypatch):
    data = batch(0, [commit(1_000), (1_001, group_key(b"g"), group_value(1, [b"m"]))])
    for name, rest in (("log", b""), ("damaged", b"\xff" * 40)):
        folder = tmp_path / name / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(data + rest)
    quiet = coterie(*command, cwd=tmp_path)
    monkeypatch.setattr(progress_bar, "AFTER_S", 0)
    monkeypatch.setattr(commandline, "Stream", TerminalForErrors)
    shown = coterie(*command, cwd=tmp_path)
    assert "reading" in shown.stderr
    assert quiet.stdout
    assert (shown.stdout, shown.returncode) == (quiet.stdout, quiet.returncode)


def test_a_bar_over_plays_counts_them(monkeypatch):
    ask = "rehearse", INCIDENTS / "loops" / "log", "--group", "steady", "--plays", "2"
    quiet = coterie(*ask, "--to", "static=true")
    monkeypatch.setattr(progress_bar, "AFTER_S", 0)
    monkeypatch.setattr(commandline, "Stream", TerminalForErrors)
    shown = coterie(*ask, "--to", "static=true")
    assert "playing steady" in shown.stderr
    assert "0/6" in shown.stderr  # as it was in two ways, and the variant
    assert (shown.stdout, shown.returncode) == (quiet.stdout, 0)


def test_no_bar_stands_on_the_terminal_when_a_line_of_the_output_is_written(tmp_path, monkeypatch):
    """Of the second partition on, for the bar appears with the first that was read."""
    for number in range(3):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        back = [batch(at, [commit(ms)]) for at, ms in enumerate((900_000, 1_000))]
        (folder / f"{0:020}.log").write_bytes(b"".join(back) + b"\xff" * 40)
    monkeypatch.setattr(progress_bar, "AFTER_S", 0)
    streams, has_bar = {}, []

    class Output(io.BytesIO):
        def write(self, data):
            drawn = streams[sys.__stderr__].getvalue().rsplit(ERASE.encode(), 1)[-1]
            has_bar.append(b"reading" in drawn)
            return super().write(data)

    class Recorded(TerminalForErrors):
        def __init__(self, like):
            super().__init__(like)
            if like is sys.__stdout__:
                self.bytes = Output()
                self.text = io.TextIOWrapper(self.bytes, like.encoding, write_through=True)
            else:
                self.bytes = self.text.buffer
            streams[like] = self.bytes

    monkeypatch.setattr(commandline, "Stream", Recorded)
    for command in (("verify",), ("growth", "--format", "csv")):
        has_bar.clear()
        name, *options = command
        shown = coterie(name, tmp_path, *options)
        assert "reading" in shown.stderr
        assert len(shown.stdout.splitlines()) > 2
        assert not any(has_bar), name
