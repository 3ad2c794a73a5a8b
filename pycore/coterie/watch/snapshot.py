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

from coterie._core.codec.checksum import crc32c
from coterie.atomic_file import atomic_write
from coterie.errors import CoterieError
from coterie.user_files import read_bytes
from coterie.watch.totals import KINDS, Mark

VERSION = 2
ANY = "watch-*.snapshot"
HEAD = b"coterie watch "
CHECK = struct.Struct(">QI")  # length and CRC-32C of the JSON


class NoSnapshot(CoterieError):
    """A file that cannot be used; the message says why."""


def file_of(folder: Path, number: int | None) -> Path:
    """Return the file of a partition."""
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
        data = read_bytes(file)
    except FileNotFoundError:
        return None
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
    return mark_of(json.loads(body))


def mark_of(value: dict[str, Any]) -> Mark:
    """Return the mark that was written as JSON."""
    totals = value["totals"]
    return Mark(
        value["next_offset"],
        {kind: Counter({tuple(row[:-1]): row[-1] for row in totals[kind]}) for kind in KINDS},
        value.get("topic_id"),
        value.get("gone", {}),
    )
