"""Output files of commands: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from coterie.atomic_file import atomic_write
from coterie.cli.failures import Failed


@contextlib.contextmanager
def whole_file(out: str, *, overwrite: bool, keep: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a temporary file, which becomes ``out`` when the block succeeds.

    Parameters
    ----------
    out : str
        The file to create. An existing file is refused unless ``overwrite`` is true.
    overwrite : bool
        Replace an existing file.
    keep : iterable of str
        The command's inputs, which are never overwritten.
    """
    target = Path(os.path.realpath(out))
    check(out, target, overwrite, keep)
    # Checked again at the end: another process may have created the target meanwhile.
    with atomic_write(target, lambda: check(out, target, overwrite, keep)) as sibling:
        yield sibling


def check(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse a target that cannot be written, or whose writing would lose data."""
    if not target.parent.is_dir():
        raise Failed(f"--out {out}: its folder does not exist; make it, or name another")
    refuse_loss(out, target, overwrite, keep)


def refuse_loss(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse to replace an existing file without ``--overwrite``, or an input."""
    if not target.exists():
        return
    if not target.is_file():
        raise Failed(f"--out {out}: is no file; name one that is new")
    if not overwrite:
        raise Failed(f"--out {out}: is there already; name another file, or give --overwrite")
    if any(Path(os.path.realpath(path)) == target for path in keep):
        raise Failed(f"--out {out}: --overwrite would replace what is read; name another file")


@contextlib.contextmanager
def text_of(path: Path | None) -> Iterator[TextIO]:
    """Open a file, or standard output, for text in UTF-8, whatever the locale."""
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    yield sys.stdout
    sys.stdout.flush()
