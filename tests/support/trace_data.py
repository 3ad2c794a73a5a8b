"""The golden traces, and short ways to write one."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.golden_data import GOLDEN, SHARED

TRACES = GOLDEN / "traces"
HEAVY = SHARED / "golden" / "traces" / "heavy"


def read(path: Path) -> list[str]:
    """The lines of a file, gzipped or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return list(lines)


def names(folder: Path) -> list[str]:
    """Names of the traces in a folder."""
    return sorted({path.name.split(".")[0] for path in folder.glob("*.trace.jsonl*")})


def pair(folder: Path, name: str) -> tuple[list[str], list[str]]:
    """A trace and what Kafka did."""
    trace, expected = (next(folder.glob(f"{name}.{kind}.jsonl*")) for kind in ("trace", "expected"))
    return read(trace), read(expected)


def scenario(name: str) -> tuple[list[str], list[str]]:
    """A golden scenario by name."""
    return pair(TRACES / "scenarios", name)


def heavy(name: str) -> tuple[list[str], list[str]]:
    """A heavy trace; skips the test where the shared data are absent."""
    if not HEAVY.is_dir():
        pytest.skip(f"heavy trace {name}: there is no {HEAVY}")
    return pair(HEAVY, name)


def header(**config):
    """The first line of a trace; underscores of the keys stand for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"format": "coterie-trace", "version": 1, "name": "test", "config": settings}


def join(at, request_id, group_id="g", member_id="", **fields):
    """A join of a plain consumer."""
    plain = {
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10000,
        "rebalance_timeout_ms": 60000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "topics": ["t"]}],
    }
    head = {"at": at, "op": "join_group", "id": request_id, "group_id": group_id}
    return head | {"member_id": member_id} | plain | fields


def ops(lines):
    """The operations of a trace's events, without its header."""
    return [line["op"] for line in lines[1:]]


def played_elsewhere(paths):
    """The lines of what another process, with other hashes of strings, makes of traces."""
    code = (
        "import json, sys, coterie\n"
        "for path in sys.argv[1:]:\n"
        "    for line in coterie.run_trace(open(path, encoding='utf-8')):\n"
        "        print(json.dumps(line))"
    )
    command = [sys.executable, "-c", code, *map(str, paths)]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return ran.stdout.splitlines()
