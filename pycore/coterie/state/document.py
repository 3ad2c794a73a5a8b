"""The JSON output of a replay: ``groups.json``, and commits as ``commits.jsonl``.

The schema of ``groups`` is the one of the golden logs; bytes are base64. A group has a ``type``
only if the log has groups of a newer protocol; otherwise all groups are classic.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.state.faults import fault_line, known_faults
from coterie.state.history import COMMIT_FIELDS, commit_rows
from coterie.state.partial import PartialState

if TYPE_CHECKING:
    from coterie._core.fold.history import History


def write_document(state: PartialState, path: Path) -> int:
    """Write ``groups.json``; return the number of groups."""
    from importlib.metadata import version

    count = 0
    source = f"coterie {version('coterie')}, on fault: {state.options.on_fault}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"source": {_json(source)},\n"partitions": [')
        file.write(",".join("\n" + _json(row) for row in partition_rows(state)))
        file.write('],\n"groups": [')
        for group in document_groups(state):
            file.write(("," if count else "") + "\n" + _json(group))
            count += 1
        file.write("]}\n")
    return count


def commit_lines(number: int | None, history: History) -> Iterator[str]:
    """Yield the commits of a partition as lines of JSON; timestamps are epoch ms."""
    for row in commit_rows(number, history):
        yield _json(dict(zip(COMMIT_FIELDS, row, strict=True))) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_base64, separators=(",", ":"))


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode("ascii")


def document_groups(state: PartialState) -> Iterator[dict[str, Any]]:
    """Yield the groups, in Java's order of their ids; bytes stay bytes."""
    typed = any(fold.newer for fold in state.partitions.values())
    for group in state.groups():
        if not typed:
            del group["type"]
        yield group


def partition_rows(state: PartialState) -> Iterator[dict[str, Any]]:
    """Yield a summary of each partition; ``messages`` are its faults."""
    for number in state.numbers():
        fold = state.partitions[number]
        full = [piece for piece in fold.segments if piece.batches]
        yield {
            "partition": number,
            "log_start_offset": full[0].first_offset if full else 0,
            "log_end_offset": full[-1].last_offset + 1 if full else 0,
            "bytes": sum(piece.bytes for piece in fold.segments),
            "messages": [fault_line(fault) for fault in known_faults(fold)],
        }
