"""Atomic output: a file or folder is written under a temporary name, then renamed.

A killed process leaves its temporary file behind. While it ran, it locked that file. The next
process that writes the same target sees that the lock is free, and removes the file. Locks work
between the processes of one kernel only. So a temporary name contains the host and the kernel that
made it, and files of another host are not touched.

``check_file`` and ``check_folder`` refuse outputs that would lose data. Every command that writes
calls one of them before its work, and again before the rename.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from coterie.errors import CoterieError

PARTIAL, REPLACED = ".partial", ".replaced"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in every container
StrPath = str | os.PathLike[str]


class OutputError(CoterieError):
    """An output that is refused; the message says why, and what to do."""


class OverlapError(OutputError):
    """An output that would replace an input, or lie inside it."""


def check_file(
    out: StrPath,
    *,
    overwrite: bool,
    inputs: Iterable[StrPath] = (),
    option: str = "--out",
    needs_folder: bool = True,
) -> Path:
    """Check an output file before it is written; return its path without symbolic links.

    Parameters
    ----------
    out
        The file to write.
    overwrite
        Allow the replacement of an existing file. Only regular files are ever replaced.
    inputs
        The files and folders that the command reads.
    option
        The option that named the file, for messages.
    needs_folder
        Refuse a file whose folder does not exist.

    Raises
    ------
    OverlapError
        The file is an input, or lies inside one.
    OutputError
        The file exists and cannot be replaced, or it has no folder.
    """
    name, target = f"{option} {os.fspath(out)}", Path(os.path.realpath(out))
    _refuse_overlap(name, target, inputs)
    mode = _mode(out)
    if mode is None:
        if needs_folder and not target.parent.is_dir():
            raise OutputError(f"{name}: its folder does not exist; make it, or name another")
    elif stat.S_ISDIR(mode):
        raise OutputError(f"{name}: is a folder; name a file")
    elif not stat.S_ISREG(mode):
        raise OutputError(f"{name}: is not a regular file; name one that is new")
    elif not overwrite:
        raise OutputError(f"{name}: is there already; name another file, or give --overwrite")
    return target


def check_folder(
    out: StrPath,
    *,
    overwrite: bool,
    is_output: Callable[[Path], bool],
    inputs: Iterable[StrPath] = (),
    option: str = "--out",
) -> Path:
    """Check an output folder before it is written; return its path without symbolic links.

    Parameters
    ----------
    is_output
        Whether coterie writes an entry of that name into such a folder. A folder with any other
        entry is not replaced.
    out, overwrite, inputs, option
        As for :func:`check_file`.

    Raises
    ------
    OverlapError
        The folder is an input, lies inside one, or contains one.
    OutputError
        The folder has contents and cannot be replaced, or is not a folder.
    """
    name, target = f"{option} {os.fspath(out)}", Path(os.path.realpath(out))
    _refuse_overlap(name, target, inputs)
    mode = _mode(out)
    if mode is None:
        return target
    if not stat.S_ISDIR(mode):
        what = "a file" if stat.S_ISREG(mode) else "not a folder"
        raise OutputError(f"{name}: is {what}; name a folder that is new or empty")
    entries = sorted(target.iterdir())
    if entries and not overwrite:
        raise OutputError(f"{name}: is not empty; name another folder, or give --overwrite")
    for path in (os.curdir, os.path.expanduser("~")):
        if entries and Path(os.path.realpath(path)).is_relative_to(target):
            raise OutputError(f"{name}: --overwrite would delete {path}; name another folder")
    for entry in entries:
        if not is_output(entry):
            raise OutputError(
                f"{name}: --overwrite would delete {entry.name}, which coterie did not write; "
                "name another folder"
            )
    return target


def check_writable(folder: Path) -> None:
    """Raise OSError, with the folder's name, if no file can be made there."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from None


def _mode(path: StrPath) -> int | None:
    """Return the mode of the file that a path leads to; None if there is no file."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refuse_overlap(name: str, target: Path, inputs: Iterable[StrPath]) -> None:
    """Refuse a target that is an input, lies inside one, or contains one."""
    for path in inputs:
        source, shown = Path(os.path.realpath(path)), os.fspath(path)
        if target == source:
            raise OverlapError(f"{name}: would replace {shown}, which is read; name another")
        if source in target.parents:
            raise OverlapError(f"{name}: lies inside {shown}, which is read; name another")
        if target in source.parents and source.exists():
            raise OverlapError(f"{name}: would delete {shown}, which is read; name another")


@contextlib.contextmanager
def atomic_write(target: Path, last_check: Callable[[], object] = lambda: None) -> Iterator[Path]:
    """Yield a temporary file beside the target, and rename it when the block succeeds.

    The disk has its bytes before its name, so a crash leaves the old file or the new one, whole.
    ``last_check`` runs just before the rename, and may raise to prevent it. Only a regular file
    is replaced: never a FIFO, a device or a socket.
    """
    sibling = temporary_name(target)  # chosen first, so that an interruption can remove it
    try:
        with create_locked(target, lambda: sibling.touch(mode=0o600, exist_ok=False), sibling):
            yield sibling
            sync(sibling)
            use_umask(sibling, 0o666)
            last_check()
            mode = _mode(target)
            if mode is not None and not stat.S_ISREG(mode):
                raise OutputError(f"{target}: is not a regular file; name one that is new")
            sibling.replace(target)
            sync(target.parent)
    except BaseException as error:
        with signals_ignored():
            sibling.unlink(missing_ok=True)
        # An error without a number is only its text, which a name would replace.
        if (
            isinstance(error, OSError)
            and error.errno is not None
            and error.filename in (None, str(sibling), sibling)
        ):
            error.filename = str(target)  # which the user knows
        raise


def sync(path: Path) -> None:
    """Write the bytes of a file, or the names in a folder, to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(number)


def temporary_name(target: Path, ending: str = PARTIAL) -> Path:
    host, kernel = _machine()
    return target.with_name(f".{target.name}.{host}-{kernel}-{secrets.token_hex(4)}{ending}")


@contextlib.contextmanager
def create_locked(target: Path, make: Callable[[], None], made: Path) -> Iterator[None]:
    """Remove the leftovers of dead processes, call ``make``, and lock ``made`` for the block.

    Nothing is removed on a file system without locks.
    """
    _remove_leftovers(target)
    with contextlib.ExitStack() as until_end:
        make()
        while not _locked(made, until_end) and not made.exists():
            make()  # another process removed it as a leftover, before it was locked
        yield


def _locked(path: Path, until: contextlib.ExitStack, flags: int = fcntl.LOCK_EX) -> bool:
    """Lock a file or folder until a stack ends; return whether it is locked and still exists."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        until.callback(os.close, file)  # closing releases the lock
        fcntl.flock(file, flags)
        return path.exists()
    return False


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of this machine that no process has locked."""
    machine = _machine()
    name = re.escape(f".{target.name}.") + r"(\w{8})-(\w{8})-[0-9a-f]{8}"
    leftover = re.compile(f"{name}({re.escape(PARTIAL)}|{re.escape(REPLACED)})")
    try:
        entries = os.listdir(target.parent)
    except OSError:  # reported when the file is created
        return
    for entry in entries:
        match = leftover.fullmatch(entry)
        if not match or (match[1] != machine[0] and match[2] != machine[1]):
            continue
        if match[3] == REPLACED and not target.exists():
            continue  # the only copy
        path = target.with_name(entry)
        with contextlib.ExitStack() as until_removed:
            if _locked(path, until_removed, fcntl.LOCK_EX | fcntl.LOCK_NB):
                remove(path)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents; ignore what cannot be removed."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@functools.cache
def _machine() -> tuple[str, str]:
    """Return the hashes of this host and its running kernel, for temporary names."""
    try:
        kernel = BOOT_ID.read_bytes()
    except OSError:
        kernel = secrets.token_bytes(8)  # unknown: matches no other process
    names = (os.uname().nodename.encode(), kernel)
    host, running = (hashlib.sha256(name).hexdigest()[:8] for name in names)
    return host, running


def use_umask(made: Path, mode: int) -> None:
    """Give a private temporary file the permissions that a new file gets: ``mode`` and umask."""
    mask = os.umask(0)
    os.umask(mask)
    made.chmod(mode & ~mask)


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM during a short block that must not be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}
    # None: a handler of a program that embeds Python, which Python cannot restore.
    ours = {number: handler for number, handler in before.items() if handler is not None}
    for number in ours:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
