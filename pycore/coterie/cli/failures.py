"""Turn an exception into one line on standard error and an exit status.

Users never see a traceback unless they set COTERIE_TRACEBACK=1.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback

import click

from coterie.base.atomic_file import OverlapError
from coterie.base.printable import printable
from coterie.base.terminal import print_text
from coterie.errors import CoterieError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Terminated(BaseException):
    """The process got SIGTERM."""


class Failed(CoterieError):
    """A failure of a command; the message is the line to print."""


def say(*lines: str) -> None:
    """Print lines on standard error, wrapped at a terminal; ignore a closed standard error."""
    with contextlib.suppress(OSError, ValueError):
        print_text("\n".join(map(printable, lines)), sys.stderr)
        sys.stderr.flush()


def say_faults(count: int) -> None:
    """Print the number of corrupt places that were left out, if there are any."""
    if count:
        what = "1 corrupt place was" if count == 1 else f"{count} corrupt places were"
        say(f"coterie: {what} left out; `coterie verify` lists them")


def status_of(error: BaseException) -> int:
    """Print an exception in one line, and return the exit status."""
    status, line = explain(error)
    if line:
        say(f"coterie: {line}")
    if os.environ.get("COTERIE_TRACEBACK") and line:
        traceback.print_exception(error)
    return status


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit status of an exception, and its line ("": print nothing)."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code, ""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1, ""
    if isinstance(error, click.UsageError):
        name = error.ctx.command_path if error.ctx else "coterie"
        return 2, f"{one_line(error.format_message())} (see {name} --help)"
    if isinstance(error, click.ClickException):
        return error.exit_code, one_line(error.format_message())
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return 130, "interrupted; nothing half-done was left"
    if isinstance(error, Terminated):
        return 143, "told to end; nothing half-done was left"
    if isinstance(error, BrokenPipeError):  # the reader closed the pipe
        discard_output()
        return 1, ""
    if isinstance(error, OverlapError):
        return 2, one_line(str(error))
    if isinstance(error, CoterieError):
        return 1, one_line(str(error))
    if isinstance(error, MemoryError):
        return 1, "out of memory; give fewer logs at once, or --group, or use a bigger machine"
    if isinstance(error, OSError):
        return 1, explain_os(error)
    what = one_line(f"{type(error).__name__}: {error}")
    return 1, f"a fault of coterie itself: {what} (COTERIE_TRACEBACK=1 shows where)"


def discard_output() -> None:
    """Discard what standard output did not take; otherwise the flush at exit fails again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def explain_os(error: OSError) -> str:
    """Return the line of an OSError: where, what, and what to do."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in FULL:
        return (
            f"{where}no space to write ({os.strerror(error.errno)}); free some, or write elsewhere"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):  # to read it, or to write there
        why, way = os.strerror(error.errno), "choose a place you may use"
        if error.errno != errno.EROFS:
            way = "run as a user who may, or give another file or folder"
        return f"{where}no permission ({why}); {way}"
    if error.errno == errno.EEXIST:  # of a folder that may be there already
        why = os.strerror(error.errno)
        return f"{where}no folder can be there, since there is a file ({why}); name another"
    return where + one_line(error.strerror or str(error))


def one_line(text: str) -> str:
    """Join the lines of a message to one."""
    return " ".join(text.split())
