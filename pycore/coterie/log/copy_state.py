"""The state of a copied partition: a small file beside its segments.

It says what the copy is of, where it begins, until when it is complete, and how the start of the
log moved. The segments alone say where the copy ends, so a lost state loses no data.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from coterie.base.atomic_file import atomic_write
from coterie.base.user_files import FileTooLarge, read_regular
from coterie.errors import LogError
from coterie.log.folders import Listing

STATE_FILE = "fetch.json"
VERSION = 1
STATE_BYTES_MAX = 16 << 20
MOVES_MAX = 10_000  # a log whose start moves every minute for a week


@dataclass(frozen=True)
class LogStartMove:
    """A move of the start of the broker's log, by retention or DeleteRecords.

    Attributes
    ----------
    at_ms : int
        When it was seen.
    before, after : int
        The first offset of the broker's log, before and after.
    lost : int
        How many of these offsets were not copied before: from the end of the copy on.
    """

    at_ms: int
    before: int
    after: int
    lost: int


@dataclass(frozen=True)
class CopyState:
    """What is known of the copy of one partition.

    Attributes
    ----------
    topic, partition : str, int
        What it is a copy of.
    cluster_id, topic_id : str or None
        The ids of both; None for brokers that have none.
    first_offset : int
        The offset at which the copy begins: the start of the broker's log at the first fetch.
    begun_at_ms : int
        The time of the first fetch.
    log_start : int
        The first offset of the broker's log, when it was last seen.
    complete_until_ms, complete_until_offset : int or None
        The copy has all that the broker's log had at that time: the records before the offset.
        None: it never had.
    moves : tuple of LogStartMove
        The moves of the log's start since the first fetch, in order.
    """

    topic: str
    partition: int
    cluster_id: str | None
    topic_id: str | None
    first_offset: int
    begun_at_ms: int
    log_start: int
    complete_until_ms: int | None = None
    complete_until_offset: int | None = None
    moves: tuple[LogStartMove, ...] = ()

    def moved(self, log_start: int, next_offset: int, now_ms: int) -> CopyState:
        """Return the state after the log's start moved; ``next_offset``: where the copy ends."""
        lost = max(0, log_start - max(next_offset, self.log_start))
        move = LogStartMove(now_ms, self.log_start, log_start, lost)
        return replace(self, log_start=log_start, moves=(*self.moves, move)[-MOVES_MAX:])

    def complete(self, offset: int, at_ms: int) -> CopyState:
        """Return the state of a copy that has everything before an offset, as of a time."""
        return replace(self, complete_until_ms=at_ms, complete_until_offset=offset)


def read_copy_state(folder: str | Path) -> CopyState | None:
    """Read the state of a partition's copy; None: the folder has none.

    Raises
    ------
    LogError
        The file cannot be read, or is not of this version.
    """
    path = Path(folder) / STATE_FILE
    try:
        fields = json.loads(read_regular(path, STATE_BYTES_MAX))
        if fields.pop("version") != VERSION:
            raise LogError(f"{path}: of another version of coterie; fetch into another folder")
        moves = tuple(LogStartMove(**move) for move in fields.pop("moves"))
        state = CopyState(**fields, moves=moves)
        if not _is_sound(state):
            raise ValueError("a field is of another type")
        return state
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, FileTooLarge) as error:
        raise LogError(
            f"{path}: not the state of a copy ({error}); fetch into another folder"
        ) from None


def complete_until_ms(listing: Listing) -> int | None:
    """Return the time until which a log is complete, by the states of its partitions' copies.

    None: a partition has no state, or was never complete.

    Raises
    ------
    LogError
        See :func:`read_copy_state`.
    """
    folders = {str(Path(segment.path).parent) for segment in listing.segments}
    states = [read_copy_state(folder) for folder in folders]
    times = [None if state is None else state.complete_until_ms for state in states]
    known = [time for time in times if time is not None]
    return min(known, default=None) if len(known) == len(times) else None


def put_aside(out: Path, topic: str, topic_id: str) -> list[Path]:
    """Move the copies of an earlier topic of this name into a folder; return such folders.

    It is ``TOPIC.ID`` with the id of that topic, beside the partitions, and can be read as a log. A
    process that is killed meanwhile leaves each partition here or there; call it again.
    ``topic_id``: of the topic as it is now.
    """
    aside: dict[Path, None] = {}
    for folder in sorted(out.glob(f"{topic}-*")):
        state = read_copy_state(folder)
        if state is not None and state.topic == topic and state.topic_id not in (None, topic_id):
            home = out / f"{topic}.{state.topic_id}"
            home.mkdir(exist_ok=True)
            folder.rename(home / folder.name)
            aside[home] = None
    return list(aside)


def _is_sound(state: CopyState) -> bool:
    """Whether the fields have the types that ``write_copy_state`` gives them."""
    optional = (state.complete_until_ms, state.complete_until_offset)
    whole = [state.partition, state.first_offset, state.begun_at_ms, state.log_start]
    whole += [value for value in optional if value is not None]
    whole += [value for move in state.moves for value in asdict(move).values()]
    texts = [
        state.topic,
        *(each for each in (state.cluster_id, state.topic_id) if each is not None),
    ]
    return all(type(value) is int for value in whole) and all(type(each) is str for each in texts)


def write_copy_state(folder: Path, state: CopyState) -> None:
    """Write the state of a partition's copy, whole or not at all."""
    with atomic_write(folder / STATE_FILE) as temporary:
        text = json.dumps({"version": VERSION, **asdict(state)})
        temporary.write_text(f"{text}\n", encoding="utf-8")
