"""The exit status and the line of each kind of exception that ends a command."""

import errno

import click
import pytest

from coterie.base.atomic_file import OverlapError
from coterie.cli.failures import Terminated, explain, explain_os, one_line
from coterie.errors import CoterieError


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (CoterieError("a\n  b"), 1, "a b"),
        (OverlapError("a\nb"), 2, "a b"),
        (click.ClickException("a\nb"), 1, "a b"),
        (click.UsageError("a\nb"), 2, "a b (see coterie --help)"),
        (click.exceptions.Exit(3), 3, ""),
        (SystemExit(4), 4, ""),
        (SystemExit(), 1, ""),
        (SystemExit("text"), 1, ""),
        (KeyboardInterrupt(), 130, "interrupted; nothing half-done was left"),
        (click.Abort(), 130, "interrupted; nothing half-done was left"),
        (Terminated(), 143, "told to end; nothing half-done was left"),
    ],
    ids=repr,
)
def test_an_exception_has_a_status_and_one_line(error, status, line):
    assert explain(error) == (status, line)


def test_a_lack_of_memory_says_what_to_do():
    status, line = explain(MemoryError())
    assert status == 1
    assert line.startswith("out of memory; give fewer logs")


def test_an_unforeseen_exception_is_a_fault_of_coterie_and_says_how_to_see_where():
    status, line = explain(ValueError("a\nb"))
    assert status == 1
    assert line == "a fault of coterie itself: ValueError: a b (COTERIE_TRACEBACK=1 shows where)"


@pytest.mark.parametrize(
    ("number", "says"),
    [
        *[(number, "no space to write") for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)],
        *[(number, "no permission") for number in (errno.EACCES, errno.EPERM, errno.EROFS)],
    ],
)
@pytest.mark.parametrize(("file", "where"), [("out/x", "out/x: "), (None, "")])
def test_a_full_disk_and_a_lack_of_rights_are_named_with_the_file_and_what_to_do(
    number, says, file, where
):
    line = explain_os(OSError(number, "text", file))
    assert line.startswith(f"{where}{says} (")
    assert "; " in line
    is_for_writing = number not in (errno.EACCES, errno.EPERM)
    assert is_for_writing == ("write" in line or "place" in line)
    assert explain(OSError(number, "text", file)) == (1, line)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.EIO, "bad\ndisk", "f"), "f: bad disk"),
        (OSError(errno.EIO, "bad disk"), "bad disk"),
        (
            OSError(errno.EEXIST, "text", "/dev/full"),
            "/dev/full: no folder can be there, since there is a file (File exists); name another",
        ),
        (OSError("only a\ntext"), "only a text"),
    ],
)
def test_another_failure_of_the_system_says_its_file_and_its_text(error, line):
    assert explain(error) == (1, line)


def test_a_message_of_several_lines_becomes_one():
    assert one_line(" a\n\tb  c\r\n") == "a b c"
