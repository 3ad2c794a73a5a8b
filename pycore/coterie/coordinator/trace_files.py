"""Find trace files, plain or gzipped (``.gz``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from coterie.errors import CoterieError

TRACE_ENDS = (".trace.jsonl", ".trace.jsonl.gz")


def stem(path: Path, ends: tuple[str, ...]) -> str:
    """Return the name of a trace: the file's name without its suffix."""
    for end in (*ends, ".jsonl", ".jsonl.gz", ".gz"):
        if path.name.endswith(end):
            return path.name[: -len(end)]
    return path.name


def found_traces(paths: Iterable[str | Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each trace file of files and folders, and its output path without a suffix."""
    for name in paths:
        path = Path(name)
        if path.is_dir():
            files = [p for p in sorted(path.rglob("*")) if p.name.endswith(TRACE_ENDS)]
            if not files:
                raise CoterieError(f"{name}: holds no file that ends in .trace.jsonl (or .gz)")
            for file in files:
                yield file, file.parent.relative_to(path) / stem(file, TRACE_ENDS)
        else:
            yield path, Path(stem(path, TRACE_ENDS))
