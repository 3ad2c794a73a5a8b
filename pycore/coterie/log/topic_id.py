"""The id of the topic that a partition's folder is of.

A topic that was deleted and created again has the same name and another id. A broker has it in
``partition.metadata``, which Kafka writes since 2.8, and a copy of ``fetch`` in ``fetch.json``. Of
two topics, the one with the newer records is today's.
Source: PartitionMetadataFile, PartitionMetadataReadBuffer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from coterie._core.codec.batch import LogReader
from coterie.base.ordering import partition_order
from coterie.base.user_files import FileTooLarge, read_regular
from coterie.errors import LogError
from coterie.log.copy_state import read_copy_state
from coterie.log.mapped import intact
from coterie.log.trust import named

if TYPE_CHECKING:
    from coterie.log.folders import Listing, Segment

FILE = "partition.metadata"
METADATA_BYTES_MAX = 4096
CONTENT = re.compile(r"version:\s+0\s+topic_id:\s+([A-Za-z0-9_-]{22})\s*", re.ASCII)
NO_ID = "A" * 22
CREATED_AGAIN = "the topic was deleted and created again"


def topic_id_of(segments: Iterable[Segment]) -> str | None:
    """Return the topic id of a partition's segments, as Kafka prints it; None: not known."""
    for segment in segments:
        if segment.partition is None:
            return None
        return _id_in(os.path.dirname(segment.path))
    return None


def _id_in(folder: str) -> str | None:
    try:
        text = read_regular(os.path.join(folder, FILE), METADATA_BYTES_MAX).decode("ascii")
        found = CONTENT.fullmatch(text)
        return found[1] if found and found[1] != NO_ID else None
    except FileNotFoundError:
        with suppress(LogError):
            state = read_copy_state(folder)
            return None if state is None else state.topic_id
    except (OSError, ValueError, FileTooLarge):
        pass
    return None


def newest_topic(partitions: Iterable[Sequence[Segment]]) -> str | None:
    """Return the id of the topic whose last record is the newest; None: they are of one topic."""
    of_topic: dict[str, list[Sequence[Segment]]] = {}
    for segments in partitions:
        topic_id = topic_id_of(segments)
        if topic_id is not None:
            of_topic.setdefault(topic_id, []).append(segments)
    if len(of_topic) < 2:
        return None
    return max(of_topic, key=lambda topic_id: max(map(last_time_ms, of_topic[topic_id])))


def last_time_ms(segments: Sequence[Segment]) -> int:
    """Return the time of a partition's last batch that can be read; -1: none has a time."""
    from coterie.log.batch_headers import last_headers  # with numpy
    from coterie.log.folders import read_segment

    for segment in reversed(segments):
        data = memoryview(read_segment(segment))
        with intact(data):
            for position in reversed(last_headers(data)["position"].tolist()):
                for batch in LogReader(data[position:]):
                    return batch.max_timestamp
    return -1


def topics_note(listing: Listing) -> str | None:
    """Return a line if the partitions of a log are of several topics; None: they are of one."""
    of_topic: dict[str, list[int | None]] = {}
    for number, segments in listing.partitions().items():
        topic_id = topic_id_of(segments)
        if topic_id is not None:
            of_topic.setdefault(topic_id, []).append(number)
    if len(of_topic) < 2:
        return None
    topics = "; ".join(
        f"{topic_id}: {named(min(numbers, key=partition_order))}"
        + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")
        for topic_id, numbers in of_topic.items()
    )
    return (
        f"these partitions are of {len(of_topic)} topics with one name, for {CREATED_AGAIN} "
        f"(topic ids {topics}): what is shown mixes them; give the folders of one"
    )
