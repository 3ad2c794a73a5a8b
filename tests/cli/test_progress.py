"""The progress bar appears on a terminal, after a second, on standard error."""

import io
import sys

from coterie.cli import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def told(monkeypatch, stream, after_s):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER_S", after_s)
    with progress.TerminalProgress() as shown:
        shown.total(2000)
        shown.advance(500)
        shown.stage("writing")
    return stream.getvalue()


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    text = told(monkeypatch, Terminal(), after_s=0)
    assert "reading" in text
    assert "0.5/2.0 kB" in text


def test_short_work_and_a_file_see_nothing(monkeypatch):
    assert told(monkeypatch, Terminal(), after_s=3600) == ""
    assert told(monkeypatch, io.StringIO(), after_s=0) == ""
