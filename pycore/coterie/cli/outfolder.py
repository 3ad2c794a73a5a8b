"""Output folders of commands: filled under a temporary name, then renamed.

A failure or an interruption removes the temporary folder. If the process is killed, the next one
that writes the same folder removes it (``coterie.atomic_file``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.atomic_file import (
    REPLACED,
    create_locked,
    signals_ignored,
    temporary_name,
    use_umask,
)
from coterie.cli.failures import Failed


@contextlib.contextmanager
def whole_folder(out: str, *, overwrite: bool, keep: Iterable[str] = ()) -> Iterator[Path]:
    """Yield an empty temporary folder, which becomes ``out`` when the block succeeds.

    Parameters
    ----------
    out : str
        The folder to create. A folder with contents is refused unless ``overwrite`` is true.
    overwrite : bool
        Replace an existing folder, with its contents.
    keep : iterable of str
        The command's inputs, which are never deleted.
    """
    target = Path(os.path.realpath(out))
    check(out, target, overwrite, keep)
    sibling = temporary_name(target)  # chosen first, so that an interruption can remove it
    with room_for(target):
        try:
            with create_locked(target, lambda: sibling.mkdir(mode=0o700), sibling):
                yield sibling
                use_umask(sibling, 0o777)
                # Another process may have filled the target meanwhile.
                check(out, target, overwrite, keep)
                put_in_place(sibling, target)
        except BaseException:
            with signals_ignored():
                shutil.rmtree(sibling, ignore_errors=True)
            raise


@contextlib.contextmanager
def room_for(target: Path) -> Iterator[None]:
    """Create the missing parent folders; remove them again if the block fails."""
    missing = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with signals_ignored():
            for parent in missing:  # the innermost first
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise


def check(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse a folder whose replacement would lose data."""
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
    """Rename the folder to its target; the replaced folder is removed after that."""
    with signals_ignored():
        if not target.exists() or not any(target.iterdir()):
            sibling.replace(target)
            return
        before = temporary_name(target, REPLACED)
        try:
            target.replace(before)
            sibling.replace(target)
        except BaseException:
            if not target.exists():
                before.replace(target)
            raise
        shutil.rmtree(before, ignore_errors=True)
