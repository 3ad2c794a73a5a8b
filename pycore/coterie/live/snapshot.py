"""The totals of a partition in a file: a line, a length, a checksum, and JSON.

A file of another version, or one that is damaged, is no snapshot: the partition is counted anew
from its log. Files are written aside and renamed.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

from coterie._core.codec.compression import crc32c
from coterie.base.atomic_file import atomic_write
from coterie.base.user_files import FileTooLarge, read_regular
from coterie.errors import CoterieError
from coterie.live.totals import KINDS, Mark, Totals

VERSION = 2
ANY = "watch-*.snapshot"
HEAD = b"coterie watch "
CHECK = struct.Struct(">QI")  # length and CRC-32C of the JSON


class NoSnapshot(CoterieError):
    """A file that cannot be used; the message says why."""


def file_of(folder: Path, number: int | None) -> Path:
    return folder / f"watch-{'log' if number is None else number}.snapshot"


def write(file: Path, mark: Mark) -> None:
    """Write a snapshot; raise OSError if that fails."""
    totals = {kind: [[*labels, n] for labels, n in mark.totals[kind].items()] for kind in KINDS}
    value = {"next_offset": mark.next_offset, "topic_id": mark.topic_id, "gone": mark.gone}
    body = json.dumps({**value, "totals": totals}, separators=(",", ":")).encode()
    with atomic_write(file) as aside:
        aside.write_bytes(HEAD + b"%d\n" % VERSION + CHECK.pack(len(body), crc32c(body)) + body)


def read(file: Path) -> Mark | None:
    """Read a snapshot; None: there is no file.

    Raises
    ------
    NoSnapshot
        The file cannot be read, is of another version, or is damaged.
    """
    try:
        data = read_regular(file)
    except FileNotFoundError:
        return None
    except FileTooLarge as error:
        raise NoSnapshot(f"{file}: {error}") from None
    except OSError as error:
        raise NoSnapshot(f"{file}: cannot be read: {error.strerror}") from None
    line, _, rest = data.partition(b"\n")
    if not line.startswith(HEAD):
        raise NoSnapshot(f"{file}: is no snapshot of coterie watch")
    if line != HEAD + b"%d" % VERSION:
        raise NoSnapshot(f"{file}: is a snapshot of another version")
    check, body = rest[: CHECK.size], rest[CHECK.size :]
    if check != CHECK.pack(len(body), crc32c(body)):
        raise NoSnapshot(f"{file}: is damaged")
    try:
        return mark_of(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NoSnapshot(f"{file}: is damaged: it has no totals of coterie watch") from None


def mark_of(value: dict[str, Any]) -> Mark:
    """Return the mark that was written as JSON; raise ValueError, KeyError, ... if it was not."""
    totals: Totals = {}
    for kind, size in KINDS.items():
        rows = value["totals"][kind]
        totals[kind] = Counter({tuple(labels): whole(count) for *labels, count in rows})
        if any(len(labels) != size for labels in totals[kind]):
            raise ValueError(kind)
    gone = {group: whole(since_ms) for group, since_ms in value.get("gone", {}).items()}
    topic_id = value.get("topic_id")
    if not isinstance(topic_id, str | None):
        raise TypeError("topic_id")
    return Mark(whole(value["next_offset"]), totals, topic_id, gone)


def whole(value: object) -> int:
    """Return a whole number; raise TypeError if it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("no whole number")
    return value
