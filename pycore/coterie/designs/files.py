"""Find and read scenario files, by path or by the name of a shipped scenario."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coterie.base.user_files import read_text
from coterie.designs.shipped import path_of
from coterie.errors import CoterieError

ACTUAL = ".actual.json"  # the suffix of files that a run writes


def path_or_shipped(name: str) -> Path:
    """Return the file of a shipped scenario by its name; other names are paths."""
    return path_of(name) or Path(name)


def files_of(names: Iterable[str]) -> Iterator[Path]:
    """Yield files by path or name, and those in folders except the outputs of runs.

    Raises
    ------
    CoterieError
        A folder has no scenario file.
    """
    for name in names:
        path = Path(name) if Path(name).exists() else path_or_shipped(name)
        if not path.is_dir():
            yield path
            continue
        files = [file for file in sorted(path.glob("*.json")) if not file.name.endswith(ACTUAL)]
        if not files:
            raise CoterieError(f"{name}: holds no file that ends in .json")
        yield from files


def read_json(path: Path) -> Any:
    """Return the JSON value of a file.

    Raises
    ------
    OSError, ValueError, RecursionError, CoterieError
        It cannot be read; :func:`error_line` describes the error.
    """
    try:
        return json.loads(read_text(path))
    except FileNotFoundError:
        if path.suffix:
            raise
        message = "no such file, and no scenario of that name: see coterie designs list"
        raise CoterieError(message) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def error_line(error: Exception) -> str:
    """Return an error of a scenario's file as one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
