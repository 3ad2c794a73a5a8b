"""Output folders of commands: filled under a temporary name, then renamed.

A failure or an interruption removes the temporary folder. If the process is killed, the next one
that writes the same folder removes it (``coterie.base.atomic_file``).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.base.atomic_file import (
    REPLACED,
    check_folder,
    create_locked,
    signals_ignored,
    temporary_name,
    use_umask,
)
from coterie.state.schemas import SCHEMAS

OUTPUTS = {*(f"{name}.parquet" for name in SCHEMAS), "groups.json", "commits.jsonl"}


@contextlib.contextmanager
def whole_folder(out: str, *, overwrite: bool, inputs: Iterable[str] = ()) -> Iterator[Path]:
    """Yield an empty temporary folder, which becomes ``out`` when the block succeeds.

    See ``coterie.base.atomic_file.check_folder`` for what is refused.
    """
    read = tuple(inputs)
    target = check_folder(out, overwrite=overwrite, inputs=read, is_output=is_output)
    sibling = temporary_name(target)  # chosen first, so that an interruption can remove it
    with room_for(target):
        try:
            with create_locked(target, lambda: sibling.mkdir(mode=0o700), sibling):
                yield sibling
                use_umask(sibling, 0o777)
                # Another process may have filled the target meanwhile.
                check_folder(out, overwrite=overwrite, inputs=read, is_output=is_output)
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


def is_output(entry: Path) -> bool:
    """Return whether ``coterie replay`` writes such an entry: a table, or a folder of its parts."""
    if entry.name not in OUTPUTS or entry.is_symlink():
        return False
    if not entry.is_dir():
        return entry.is_file()
    return all(part.match("part-*.parquet") and part.is_file() for part in entry.iterdir())


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
