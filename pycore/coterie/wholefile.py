"""A file that appears whole or not at all: written beside, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["beside", "open_to_all", "undisturbed", "written_beside"]


@contextlib.contextmanager
def written_beside(target: Path, last_check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Give a file to write in the target's folder; it takes its name when the block ends well.

    ``last_check`` is called right before and may refuse.
    """
    sibling = beside(target)  # named before it is there: an interruption finds it in any case
    try:
        sibling.touch(mode=0o600, exist_ok=False)
        yield sibling
        open_to_all(sibling, 0o666)
        last_check()
        sibling.replace(target)
    except BaseException:
        with undisturbed():
            sibling.unlink(missing_ok=True)
        raise


def beside(target: Path) -> Path:
    """Return a hidden name in the same folder that nothing has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")


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
