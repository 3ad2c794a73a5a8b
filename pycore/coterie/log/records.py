"""Single records of a log as JSON objects, in the schema of Kafka's own decoder.

For people, and for pipes into other tools; bulk work uses columns. Faults are skipped, as
``--on-fault skip`` does, and reported at their place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Container, Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.batch import LogBatch, LogReader, LogRecord
from coterie._core.codec.schema import (
    decode_key,
    decode_share_key,
    decode_share_value,
    decode_value,
    key_type,
)
from coterie.base.schemas import SECTIONS
from coterie.errors import CorruptData
from coterie.log.folders import SHARE_STATE, TOPIC

if TYPE_CHECKING:
    from typing_extensions import Buffer

CONTROL_TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
PLAIN_KEY = 3  # fields: version, type, data; no error
PLAIN_VALUE = 2  # fields: version, data
TRANSACTION_MARKERS = ("ABORT", "COMMIT")
UNKNOWN_FIELD = '"_unknown_tags":'  # a text of a record has a backslash before its quotes
FaultHandler = Callable[[int, int | None, str, int | None, str], None]


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} has no place in a record")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64)


def to_json(value: object) -> str:
    """Return a value as one line of JSON; bytes become base64."""
    return _ENCODER.encode(value)


class JsonLines:
    """``to_json`` for rows in log order, about three times as fast.

    The fields of a batch are encoded once, and offset commits have a template.

    Attributes
    ----------
    with_unknown_fields : int
        How many lines so far have a tagged field that is not in the table of messages.
    """

    def __init__(self) -> None:
        self.with_unknown_fields = 0
        self._batch: dict[str, Any] | None = None
        self._head = ""

    def line(self, row: dict[str, Any]) -> str:
        """Return ``to_json(row)``."""
        text = self._line(row)
        self.with_unknown_fields += UNKNOWN_FIELD in text
        return text

    def _line(self, row: dict[str, Any]) -> str:
        batch = row["batch"]
        if batch is not self._batch:
            self._batch, self._head = batch, to_json(batch)
        start = (
            f'{{"partition":{"null" if row["partition"] is None else row["partition"]},'
            f'"segment":{encode_basestring(row["segment"])},"offset":{row["offset"]},'
            f'"timestamp":{row["timestamp"]},"timestamp_type":"{row["timestamp_type"]}",'
            f'"batch":{self._head},'
        )
        if "control" in row:
            return f'{start}"control":{to_json(row["control"])}}}'
        key, value = row["key"], row["value"]
        if key is None or len(key) != PLAIN_KEY or key.get("type") != "offset_commit":
            return f'{start}"key":{to_json(key)},"value":{to_json(value)}}}'
        return f'{start}"key":{_commit_key(key)},"value":{_commit_value(value)}}}'


def _commit_key(key: dict[str, Any]) -> str:
    data = key["data"]
    return (
        f'{{"version":{key["version"]},"type":"offset_commit","data":{{'
        f'"group":{encode_basestring(data["group"])},"topic":{encode_basestring(data["topic"])},'
        f'"partition":{data["partition"]}}}}}'
    )


def _commit_value(value: dict[str, Any] | None) -> str:
    if value is None or len(value) != PLAIN_VALUE:
        return to_json(value)
    fields = [
        f'"{name}":{item if type(item) is int else to_json(item)}'
        for name, item in value["data"].items()
    ]
    return f'{{"version":{value["version"]},"data":{{{",".join(fields)}}}}}'


class Decoders(NamedTuple):
    """How keys and values of a topic are decoded."""

    key: Callable[[bytes], dict[str, Any]]
    value: Callable[[int | None, bytes | None], dict[str, Any] | None]
    key_type: Callable[[int], str | None]


def _share_value(version: int | None, value: bytes | None) -> dict[str, Any] | None:
    if value is not None and (version is None or version not in _SHARE_TYPES):
        return _raw(value, "unknown version")
    return None if version is None else decode_share_value(version, value)


_SHARE_TYPES = {
    section.keys[0]: name for name, section in SECTIONS.items() if section.topic == SHARE_STATE
}
DECODERS = {
    TOPIC: Decoders(decode_key, decode_value, key_type),
    SHARE_STATE: Decoders(decode_share_key, _share_value, _SHARE_TYPES.get),
}


def segment_records(
    data: Buffer,
    *,
    partition: int | None,
    segment: str,
    groups: Container[str] | None = None,
    on_fault: FaultHandler | None = None,
    topic: str = TOPIC,
) -> Iterator[dict[str, Any]]:
    """Yield the records of one segment, in log order.

    Parameters
    ----------
    data
        The bytes of the whole segment.
    partition, segment
        Copied into the rows; ``segment`` is the name of the ``.log`` file.
    groups
        Only records of these groups; None: all records, also markers.
    on_fault
        Called for each fault with (position, base offset, kind, record offset, detail), before
        the records after it are yielded.
    topic
        One of ``DECODERS``.

    Yields
    ------
    dict
        As a line of ``records.jsonl``; bytes are ``bytes``. An unreadable key or value has
        ``version``, ``raw`` and ``error`` in place of ``data``. A tagged field that is not in the
        table is under ``_unknown_tags`` of its struct, as a pair of the tag and its bytes.
    """
    reader, decoders = LogReader(data), DECODERS[topic]
    reported = 0
    for batch in reader:
        reported = _report_faults(reader, reported, on_fault)
        head = _batch_fields(batch)
        for record in batch.records:
            row = _place(partition, segment, batch, record)
            row["batch"] = head
            if batch.is_control:
                row["control"] = _control(record)
                is_marker = row["control"]["type"] in TRANSACTION_MARKERS
                if not is_marker and record is batch.records[0] and on_fault is not None:
                    detail = f"a control batch of type {row['control']['type']}"
                    on_fault(batch.position, batch.base_offset, "marker", None, detail)
            else:
                row["key"], row["value"] = _decoded(batch, record, on_fault, decoders)
            if groups is None or group_of(row) in groups:
                yield row
    _report_faults(reader, reported, on_fault)


def _report_faults(reader: LogReader, reported: int, on_fault: FaultHandler | None) -> int:
    """Report the faults after the first ``reported`` ones; return the number of all."""
    if on_fault is not None:
        for fault in reader.faults[reported:]:
            on_fault(fault.position, fault.base_offset, fault.kind, None, fault.detail)
    return len(reader.faults)


def _batch_fields(batch: LogBatch) -> dict[str, Any]:
    return {
        "base_offset": batch.base_offset,
        "magic": batch.magic,
        "compression": batch.compression,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "position": batch.position,
    }


def _place(
    partition: int | None, segment: str, batch: LogBatch, record: LogRecord
) -> dict[str, Any]:
    kind = "LogAppendTime" if batch.append_time or record.append_time else "CreateTime"
    return {
        "partition": partition,
        "segment": segment,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "NoTimestampType" if batch.magic == 0 else kind,
    }


def _control(record: LogRecord) -> dict[str, Any]:
    """Return a marker's fields. Sources: ControlRecordType, EndTransactionMarker."""
    key, value = record.key, record.value
    name = "UNKNOWN"
    if key is not None and len(key) >= 4 and key[0] < 0x80:  # a negative version has no type
        name = CONTROL_TYPES.get(int.from_bytes(key[2:4], "big"), name)
    fields: dict[str, Any] = {"type": name, "key": key, "value": value}
    if name in TRANSACTION_MARKERS and value is not None and len(value) >= 6:
        fields["coordinator_epoch"] = int.from_bytes(value[2:6], "big", signed=True)
    return fields


def _decoded(
    batch: LogBatch, record: LogRecord, on_fault: FaultHandler | None, decoders: Decoders
) -> tuple[Any, Any]:
    """Return key and value as dicts; report an unreadable one, and keep its bytes."""
    key, value = record.key, record.value
    key_row: Any = None
    fault: CorruptData | None = None
    try:
        if key is None:
            raise CorruptData("a record without a key", kind="key")
        key_row = decoders.key(key)
    except CorruptData as error:
        fault = error
        key_row = None if key is None else _raw_key(key, str(error), decoders)
    # The version of a truncated key still determines the value's schema.
    version = None if key_row is None else key_row["version"]
    try:
        value_row: Any = decoders.value(version, value)
    except CorruptData as error:
        fault, value_row = fault or error, _raw(value or b"", str(error))
    if fault is not None and on_fault is not None:  # one per record, as in a fold
        on_fault(batch.position, batch.base_offset, fault.kind, record.offset, str(fault))
    return key_row, value_row


def _raw_key(key: bytes, error: str, decoders: Decoders) -> dict[str, Any]:
    row = _raw(key, error)
    kind = None if row["version"] is None else decoders.key_type(row["version"])
    return row if kind is None else {"version": row["version"], "type": kind, **row}


def _raw(data: bytes, error: str) -> dict[str, Any]:
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else None
    return {"version": version, "raw": data, "error": error}


def group_of(row: dict[str, Any]) -> str | None:
    """Return the group of a record; None: it is of none, or its key cannot be read."""
    data = (row.get("key") or {}).get("data") or {}
    group: str | None = data.get("group", data.get("groupId"))
    return group
