"""Where the golden data lie, and how they are read.

``tests/golden/logs`` holds every case but ``wide``, which is too big to keep in the repository:
``wide()`` gives its folder in ``../shared/golden`` beside the checkout, or skips the test by
name. ``COTERIE_SHARED`` names another place for that folder. What each case holds, and which
program of Kafka wrote each file, stands in ``golden/logs/README.md``.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from functools import lru_cache
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
    """Give what lies in ``../shared/golden`` only; a test that asks is skipped without it."""
    path = SHARED / "golden" / name
    if not path.exists():
        pytest.skip(f"golden/{name} is not beside this checkout (../shared/golden/{name})")
    return path


def wide() -> Path:
    """Folder of the log of 1,182,263 records, its segments compressed as ``.log.zst``."""
    return shared("logs/wide")


def segments(case: str) -> list[Path]:
    """Segment files of a case by partition, then by base offset."""
    found = log(case).glob("__consumer_offsets-*/*.log")
    return sorted(found, key=lambda p: (int(p.parent.name.rpartition("-")[2]), p.name))


def json_of(case: str, name: str) -> Any:
    """Parse ``groups.json``, ``expect.json`` or another JSON file of a case."""
    return json.loads((log(case) / name).read_text(encoding="utf-8"))


def lines_of(case: str, name: str) -> Iterator[Any]:
    """Parse ``records.jsonl.gz`` or ``batches.jsonl.gz`` line by line."""
    with gzip.open(log(case) / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@lru_cache(maxsize=2)  # the tests of one case follow one another, and some models read it often
def all_records(case: str) -> tuple[dict[str, Any], ...]:
    """Kafka's own decode of every record of a case; shared, so nobody may change one."""
    return tuple(lines_of(case, "records.jsonl.gz"))


def records(case: str) -> Iterator[dict[str, Any]]:
    """Give Kafka's own decode of every record of a case, in its order."""
    return iter(all_records(case))


def live(case: str, name: str) -> str:
    """Text that Kafka's tool printed for a case, ``live/NAME``."""
    return (log(case) / "live" / name).read_text(encoding="utf-8")


def incidents() -> list[str]:
    """Names of the incidents that were recorded on a broker."""
    return sorted(p.name for p in INCIDENTS.iterdir() if p.is_dir())


def incident(name: str) -> Path:
    """Folder of an incident: its log is in ``log``, or in ``whole`` and ``compacted``."""
    path = INCIDENTS / name
    assert path.is_dir(), f"no golden incident {name}"
    return path


def truth(name: str) -> dict[str, Any]:
    """Return what was done, when, and what Kafka's own tools said: see golden/incidents."""
    found: dict[str, Any] = json.loads((incident(name) / "truth.json").read_text(encoding="utf-8"))
    return found


def client_commits(name: str) -> list[dict[str, Any]]:
    """Return the commits of an incident as its clients saw them answered, in order of time."""
    with gzip.open(incident(name) / "commits.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
