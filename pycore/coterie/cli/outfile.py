"""An output file that appears whole or not at all: written beside, then renamed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from coterie.atomic_file import written_beside
from coterie.cli.failures import Failed


@contextlib.contextmanager
def whole_file(out: str, *, overwrite: bool, keep: Iterable[str] = ()) -> Iterator[Path]:
    """Give a file to write; it becomes ``out`` when the block ends well.

    Parameters
    ----------
    out : str
        The file to make. Refused if it is there, unless ``overwrite``.
    overwrite : bool
        See above.
    keep : iterable of str
        Files that must not be overwritten: what is being read.
    """
    target = Path(os.path.realpath(out))
    check(out, target, overwrite, keep)
    # Checked again at the end: what came there meanwhile is not ours to replace.
    with written_beside(target, lambda: check(out, target, overwrite, keep)) as sibling:
        yield sibling


def check(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse what would lose something, or cannot be."""
    if not target.parent.is_dir():
        raise Failed(f"--out {out}: its folder does not exist; make it, or name another")
    refuse_loss(out, target, overwrite, keep)


def refuse_loss(out: str, target: Path, overwrite: bool, keep: Iterable[str]) -> None:
    """Refuse to replace a file unasked, or one that is read."""
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
    """Give a file, or standard output, to write text to: UTF-8, whatever the locale."""
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    yield sys.stdout
    sys.stdout.flush()
