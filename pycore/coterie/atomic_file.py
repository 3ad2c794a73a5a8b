"""What appears whole or not at all: a file or a folder, written beside and then renamed.

A process that is killed cannot take away what it had begun. It held a lock on it, which ended with
it: so the next one that writes the same target finds it and takes it away. Locks are seen by all
processes of one kernel, and by those of one host after it was started again: the name says which
host and kernel it was, and what others have begun is left alone.
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

__all__ = ["PARTIAL", "REPLACED", "beside", "held", "open_to_all", "undisturbed", "written_beside"]

PARTIAL, REPLACED = ".partial", ".replaced"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # of the kernel that runs, whatever container


@contextlib.contextmanager
def written_beside(target: Path, last_check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Give a file to write in the target's folder; it takes its name when the block ends well.

    ``last_check`` is called right before and may refuse.
    """
    sibling = beside(target)  # named before it is there: an interruption finds it in any case
    try:
        with held(target, lambda: sibling.touch(mode=0o600, exist_ok=False), sibling):
            yield sibling
            open_to_all(sibling, 0o666)
            last_check()
            sibling.replace(target)
    except BaseException:
        with undisturbed():
            sibling.unlink(missing_ok=True)
        raise


def beside(target: Path, ending: str = PARTIAL) -> Path:
    """Return a hidden name in the same folder that nothing has."""
    host, kernel = _here()
    return target.with_name(f".{target.name}.{host}-{kernel}-{secrets.token_hex(4)}{ending}")


@contextlib.contextmanager
def held(target: Path, make: Callable[[], None], made: Path) -> Iterator[None]:
    """Take away what dead processes left of a target, make ``made``, and hold it meanwhile.

    Where the file system has no locks, nothing is taken away.
    """
    _clear_left(target)
    with contextlib.ExitStack() as until_end:
        make()
        while not _locked(made, until_end) and not made.exists():
            make()  # another took it for left behind: it was there, and not held yet
        yield


def _locked(path: Path, until: contextlib.ExitStack, flags: int = fcntl.LOCK_EX) -> bool:
    """Lock a file or folder until a stack ends; whether that was done, and it is still there."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        until.callback(os.close, file)  # which also ends the lock
        fcntl.flock(file, flags)
        return path.exists()
    return False


def _clear_left(target: Path) -> None:
    """Take away what was begun here and is held by nobody."""
    here = _here()
    name = re.escape(f".{target.name}.") + r"(\w{8})-(\w{8})-[0-9a-f]{8}"
    begun = re.compile(f"{name}({re.escape(PARTIAL)}|{re.escape(REPLACED)})")
    try:
        entries = os.listdir(target.parent)
    except OSError:  # what is wrong with the folder is said when something is made in it
        return
    for entry in entries:
        match = begun.fullmatch(entry)
        if not match or (match[1] != here[0] and match[2] != here[1]):
            continue
        if match[3] == REPLACED and not target.exists():
            continue  # the only one that is left
        left = target.with_name(entry)
        with contextlib.ExitStack() as meanwhile:
            if _locked(left, meanwhile, fcntl.LOCK_EX | fcntl.LOCK_NB):
                remove(left)


def remove(left: Path) -> None:
    """Remove a file or a folder with all that is in it, as far as that can be done."""
    with contextlib.suppress(OSError):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


@functools.cache
def _here() -> tuple[str, str]:
    """Return what stands for this host and for its running kernel in names."""
    try:
        kernel = BOOT_ID.read_bytes()
    except OSError:
        kernel = secrets.token_bytes(8)  # not known: no other process says the same
    said = (os.uname().nodename.encode(), kernel)
    host, running = (hashlib.sha256(one).hexdigest()[:8] for one in said)
    return host, running


def open_to_all(made: Path, mode: int) -> None:
    """Give what was made for its owner alone the permissions that a new one has."""
    mask = os.umask(0)
    os.umask(mask)
    made.chmod(mode & ~mask)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no signal in between: what is begun here is short and has to be whole."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are heard in the main thread alone
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}
    # None: set by a program that runs Python within itself; it could not be put back from here.
    ours = {number: handler for number, handler in before.items() if handler is not None}
    for number in ours:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
