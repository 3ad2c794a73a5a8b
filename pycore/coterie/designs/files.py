"""Scenarios in files: found by path or by name, read, and told in one line what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coterie.designs.shipped import path_of
from coterie.errors import CoterieError
from coterie.user_files import read_text

ACTUAL = ".actual.json"  # how the name of what a run wrote ends


def place_of(given: str) -> Path:
    """Return the file of a scenario: of one that comes with coterie by its name, else a path."""
    return path_of(given) or Path(given)


def files_of(given: Iterable[str]) -> Iterator[Path]:
    """Yield files, by path or name, and those in folders; what a run wrote there is left out.

    Raises
    ------
    CoterieError
        A folder has no scenario.
    """
    for name in given:
        path = Path(name) if Path(name).exists() else place_of(name)
        if not path.is_dir():
            yield path
            continue
        files = [one for one in sorted(path.glob("*.json")) if not one.name.endswith(ACTUAL)]
        if not files:
            raise CoterieError(f"{name}: holds no file that ends in .json")
        yield from files


def read_json(path: Path) -> Any:
    """Return what a scenario's file holds.

    Raises
    ------
    OSError, ValueError, RecursionError, CoterieError
        It cannot be read; :func:`told` says it in one line.
    """
    try:
        return json.loads(read_text(path))
    except FileNotFoundError:
        if path.suffix:
            raise
        what = "no such file, and no scenario of that name: see coterie designs list"
        raise CoterieError(what) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not text: {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None


def told(error: Exception) -> str:
    """Return what is wrong with a scenario's file, in one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
