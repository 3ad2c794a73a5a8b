"""Output files of commands: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from coterie.base.atomic_file import OutputError, atomic_write, check_file


@contextlib.contextmanager
def whole_file(
    out: str, *, overwrite: bool, inputs: Iterable[str] = (), option: str = "--out"
) -> Iterator[Path]:
    """Yield a temporary file, which becomes ``out`` when the block succeeds.

    See ``coterie.base.atomic_file.check_file`` for what is refused.
    """
    read = tuple(inputs)

    def check() -> Path:
        return check_file(out, overwrite=overwrite, inputs=read, option=option)

    # Again before the rename: another process may have created the target meanwhile.
    with atomic_write(check(), check) as temporary:
        yield temporary


def check_files_in(
    folder: str, targets: Iterable[Path], *, overwrite: bool, inputs: Iterable[str]
) -> None:
    """Check the output files of a folder, which may not exist yet, before any work."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise OutputError(f"--out {folder}: is a file; name a folder")
    read = tuple(inputs)
    for target in targets:
        check_file(target, overwrite=overwrite, inputs=read, needs_folder=False)


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
