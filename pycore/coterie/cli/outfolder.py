"""An output folder that appears whole or not at all.

What is written goes into a hidden sibling, which takes the folder's name at the end. Whatever ends
the work before that, a failure or an interruption, takes the sibling away again; and what a killed
process left, the next one that writes the same folder (``wholefile``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.atomic_file import REPLACED, beside, held, open_to_all, undisturbed
from coterie.cli.failures import Failed


@contextlib.contextmanager
def whole_folder(out: str, *, overwrite: bool, keep: Iterable[str] = ()) -> Iterator[Path]:
    """Give an empty folder to fill; it becomes ``out`` when the block ends well.

    Parameters
    ----------
    out : str
        The folder to make. Refused if it is there and not empty, unless ``overwrite``: then what
        is in it goes.
    overwrite : bool
        See above.
    keep : iterable of str
        Paths that must not go with an overwritten folder: what is being read.
    """
    target = Path(os.path.realpath(out))
    check(out, target, overwrite, keep)
    sibling = beside(target)  # named before it is there: an interruption finds it in any case
    with room_for(target):
        try:
            with held(target, lambda: sibling.mkdir(mode=0o700), sibling):
                yield sibling
                open_to_all(sibling, 0o777)
                # What came there meanwhile is not ours to delete.
                check(out, target, overwrite, keep)
                put_in_place(sibling, target)
        except BaseException:
            with undisturbed():
                shutil.rmtree(sibling, ignore_errors=True)
            raise


@contextlib.contextmanager
def room_for(target: Path) -> Iterator[None]:
    """Make the folders above; those that were not there go again if the block fails."""
    missing = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with undisturbed():
            for parent in missing:  # the innermost first
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise


def check(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse what would lose something."""
    if not target.exists():
        return
    if not target.is_dir():
        raise Failed(f"--out {out}: is a file; name a folder that is new or empty")
    if not any(target.iterdir()):
        return
    if not overwrite:
        raise Failed(f"--out {out}: is not empty; name another folder, or give --overwrite")
    for path in [*keep, os.curdir, os.path.expanduser("~")]:
        if Path(os.path.realpath(path)).is_relative_to(target):
            raise Failed(f"--out {out}: --overwrite would delete {path}; name another folder")


def put_in_place(sibling: Path, target: Path) -> None:
    """Let the folder take its name; the one that had it goes only when that is done."""
    with undisturbed():
        if not target.exists() or not any(target.iterdir()):
            sibling.replace(target)
            return
        before = beside(target, REPLACED)
        try:
            target.replace(before)
            sibling.replace(target)
        except BaseException:
            if not target.exists():
                before.replace(target)
            raise
        shutil.rmtree(before, ignore_errors=True)
