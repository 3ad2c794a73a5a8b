"""The golden data: where they are, and how to read them.

``tests/golden/logs`` has every case but ``wide``, which is too big for the repository: ``wide()``
returns its folder in ``../shared/golden`` beside the checkout, or skips the test by name.
``COTERIE_SHARED`` names another place for that folder. ``golden/logs/README.md`` describes each
case and the program of Kafka that wrote each file.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = GOLDEN / "logs"
INCIDENTS = GOLDEN / "incidents"
SHARED = Path(os.environ.get("COTERIE_SHARED") or Path(__file__).parents[3] / "shared")
NOT_A_LOG = {"corrupt"}  # a folder of cases, not a case


def cases() -> list[str]:
    """Names of the whole logs in the repository: all but ``wide`` and the corrupt ones."""
    return sorted(p.name for p in LOGS.iterdir() if p.is_dir() and p.name not in NOT_A_LOG)


def corrupt_cases() -> list[str]:
    """Names of the folders of ``corrupt``, ``fine`` (no fault) among them."""
    return sorted(p.name for p in (LOGS / "corrupt").iterdir() if p.is_dir())


def log(case: str) -> Path:
    """Folder of a case: ``basic``, ``corrupt/fine``, ..."""
    path = LOGS / case
    assert path.is_dir(), f"no golden log {case}"
    return path


def shared(name: str) -> Path:
    """Path of data that are only in ``../shared/golden``; skips the test if they are absent."""
    path = SHARED / "golden" / name
    if not path.exists():
        pytest.skip(f"golden/{name} is not beside this checkout (../shared/golden/{name})")
    return path


def wide() -> Path:
    """Folder of the log of 1,182,263 records, its segments compressed as ``.log.zst``."""
    return shared("logs/wide")


def segments(case: str) -> list[Path]:
    """Segment files of a case by partition, then by base offset."""
    paths = log(case).glob("__consumer_offsets-*/*.log")
    return sorted(paths, key=lambda p: (int(p.parent.name.rpartition("-")[2]), p.name))


def json_of(case: str, name: str) -> Any:
    """Parse ``groups.json``, ``expect.json`` or another JSON file of a case."""
    return json.loads((log(case) / name).read_text(encoding="utf-8"))


def lines_of(case: str, name: str) -> Iterator[Any]:
    """Parse ``records.jsonl.gz`` or ``batches.jsonl.gz`` line by line."""
    with gzip.open(log(case) / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@lru_cache(maxsize=2)  # tests of a case run in a row, and some models read it often
def all_records(case: str) -> tuple[dict[str, Any], ...]:
    """Kafka's own decode of every record of a case; shared, so do not change it."""
    return tuple(lines_of(case, "records.jsonl.gz"))


def records(case: str) -> Iterator[dict[str, Any]]:
    """Yield Kafka's own decode of every record of a case, in order."""
    return iter(all_records(case))


def live(case: str, name: str) -> str:
    """The output of Kafka's tool for a case, ``live/NAME``."""
    return (log(case) / "live" / name).read_text(encoding="utf-8")


def incidents() -> list[str]:
    """Names of the recorded incidents."""
    return sorted(p.name for p in INCIDENTS.iterdir() if p.is_dir())


def incident(name: str) -> Path:
    """Folder of an incident: its log is in ``log``, or in ``whole`` and ``compacted``."""
    path = INCIDENTS / name
    assert path.is_dir(), f"no golden incident {name}"
    return path


@cache
def truth(name: str) -> dict[str, Any]:
    """The written truth of an incident, shared, so do not change it: golden/incidents/README.md."""
    fields: dict[str, Any] = json.loads((incident(name) / "truth.json").read_text(encoding="utf-8"))
    return fields


def client_commits(name: str) -> list[dict[str, Any]]:
    """The commits of an incident as its clients saw them succeed, in order of time."""
    with gzip.open(incident(name) / "commits.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def gather(folder: Path, names: Iterable[str]) -> dict[int, tuple[str, int]]:
    """Link partitions of many cases into one folder: number there -> (case, its own number)."""
    origin: dict[int, tuple[str, int]] = {}
    for case in names:
        for source in sorted(log(case).glob("__consumer_offsets-*")):
            number = len(origin)
            (folder / f"__consumer_offsets-{number}").symlink_to(source)
            origin[number] = case, int(source.name.rpartition("-")[2])
    return origin
