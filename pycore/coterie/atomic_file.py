"""Atomic output: a file or folder is written under a temporary name, then renamed.

A killed process leaves its temporary file behind. While it ran, it locked that file. The next
process that writes the same target sees that the lock is free, and removes the file. Locks work
between the processes of one kernel only. So a temporary name contains the host and the kernel that
made it, and files of another host are not touched.
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
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = [
    "PARTIAL",
    "REPLACED",
    "atomic_write",
    "create_locked",
    "signals_ignored",
    "temporary_name",
    "use_umask",
]

PARTIAL, REPLACED = ".partial", ".replaced"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in every container


@contextlib.contextmanager
def atomic_write(target: Path, last_check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Yield a temporary file beside the target, and rename it when the block succeeds.

    ``last_check`` runs just before the rename, and may raise to prevent it.
    """
    sibling = temporary_name(target)  # chosen first, so that an interruption can remove it
    try:
        with create_locked(target, lambda: sibling.touch(mode=0o600, exist_ok=False), sibling):
            yield sibling
            use_umask(sibling, 0o666)
            last_check()
            sibling.replace(target)
    except BaseException:
        with signals_ignored():
            sibling.unlink(missing_ok=True)
        raise


def temporary_name(target: Path, ending: str = PARTIAL) -> Path:
    """Return an unused hidden name in the target's folder."""
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
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
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
