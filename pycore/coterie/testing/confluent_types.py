"""Errors, partitions and messages by the names of confluent-kafka.

Source: ``confluent_kafka.cimpl`` (its ``.pyi``), ``rdkafka.h`` (rd_kafka_resp_err_t).
"""

from __future__ import annotations

from typing import Any

from coterie.testing.client import errors
from coterie.testing.programs import ClientFailure
from coterie.values import Error

OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, OFFSET_INVALID = -2, -1, -1000, -1001
TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME = 0, 1, 2
_LOCAL = (  # noqa: SIM905 - of librdkafka itself, from -137 down
    "DESTROY_BROKER INVALID_DIFFERENT_RECORD LOG_TRUNCATION AUTO_OFFSET_RESET NOOP "
    "ASSIGNMENT_LOST APPLICATION FENCED NOT_CONFIGURED UNKNOWN_BROKER MAX_POLL_EXCEEDED "
    "GAPLESS_GUARANTEE INCONSISTENT FATAL PURGE_INFLIGHT PURGE_QUEUE RETRY INVALID_TYPE UNDERFLOW "
    "NOENT READ_ONLY PARTIAL VALUE_DESERIALIZATION KEY_DESERIALIZATION VALUE_SERIALIZATION "
    "KEY_SERIALIZATION INTR WAIT_CACHE UNSUPPORTED_FEATURE TIMED_OUT_QUEUE OUTDATED NO_OFFSET "
    "AUTHENTICATION NOT_IMPLEMENTED UNKNOWN_PROTOCOL STATE CONFLICT REVOKE_PARTITIONS "
    "ASSIGN_PARTITIONS EXISTING_SUBSCRIPTION PREV_IN_PROGRESS IN_PROGRESS UNKNOWN_GROUP WAIT_COORD "
    "SSL NODE_UPDATE ISR_INSUFF QUEUE_FULL TIMED_OUT INVALID_ARG ALL_BROKERS_DOWN UNKNOWN_TOPIC FS "
    "UNKNOWN_PARTITION PARTITION_EOF MSG_TIMED_OUT RESOLVE CRIT_SYS_RESOURCE TRANSPORT FAIL "
    "DESTROY BAD_COMPRESSION BAD_MSG"
).split()
_RENAMED = {  # where librdkafka has another name than Kafka
    Error.CORRUPT_MESSAGE: "INVALID_MSG",
    Error.INVALID_FETCH_SIZE: "INVALID_MSG_SIZE",
    Error.MESSAGE_TOO_LARGE: "MSG_SIZE_TOO_LARGE",
    Error.NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_FOR_PARTITION",
    Error.NONE: "NO_ERROR",
    Error.STALE_CONTROLLER_EPOCH: "STALE_CTRL_EPOCH",
    Error.INVALID_TOPIC_EXCEPTION: "TOPIC_EXCEPTION",
    Error.UNKNOWN_SERVER_ERROR: "UNKNOWN",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PART",
}
_NAMES = {
    **{-137 - at: f"_{name}" for at, name in enumerate(_LOCAL)},
    **{int(error): _RENAMED.get(error, error.name) for error in Error},
}


class KafkaError:
    """An error of a broker, or of the client itself: its name begins with ``_``."""

    def __init__(
        self,
        error: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code, self._reason = int(error), reason
        self._fatal, self._retriable, self._abort = fatal, retriable, txn_requires_abort

    def code(self) -> int:
        """Return the number."""
        return self._code

    def name(self) -> str:
        """Return the name."""
        return _NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> str:
        """Return the error as a text, which is not that of librdkafka."""
        if self._reason is not None:
            return self._reason
        words = self.name().strip("_").replace("_", " ").capitalize()
        return f"{'Local' if self._code < -1 else 'Broker'}: {words}"

    def fatal(self) -> bool:
        """Whether the client is of no use any more."""
        return self._fatal

    def retriable(self) -> bool:
        """Whether the call may succeed later."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Whether the transaction has to be aborted."""
        return self._abort

    def __repr__(self) -> str:  # type: ignore[valid-type]  # `str` is a method here
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self.str()}"}}'

    __str__ = __repr__

    def __hash__(self) -> int:
        return self._code

    def __bool__(self) -> bool:
        return self._code != 0

    def __int__(self) -> int:
        return self._code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaError | int) and self._code == int(other)

    def __lt__(self, other: Any) -> bool:
        return self._code < int(other)

    def __gt__(self, other: Any) -> bool:
        return self._code > int(other)


for _code, _name in _NAMES.items():
    setattr(KafkaError, _name, _code)


class KafkaException(ClientFailure):
    """What clients raise; ``args[0]`` is the KafkaError."""


class TopicPartition:
    """A partition, with an offset, and the error of an operation on it."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset
        self.metadata, self.leader_epoch = metadata, leader_epoch
        self.error: KafkaError | None = None

    @property
    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )

    def __hash__(self) -> int:
        return hash(self._place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place == other._place

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place < other._place


class TopicCollection:
    """Topics by their names, for an admin client."""

    def __init__(self, topic_names: list[str]) -> None:
        self.topic_names = topic_names


class Message:
    """A record, or an error in place of one."""

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._headers, self._error = key, value, headers, error
        self._timestamp = timestamp or (TIMESTAMP_NOT_AVAILABLE, 0)
        self._latency, self._leader_epoch = latency, leader_epoch

    def __len__(self) -> int:
        return len(self._value or b"")


def _field(name: str) -> None:
    def get(self: Message) -> Any:
        return getattr(self, f"_{name}")

    get.__name__, get.__doc__ = name, f"Return the {name.replace('_', ' ')}."
    setattr(Message, name, get)


def _setter(name: str) -> None:
    def put(self: Message, value: Any) -> None:
        setattr(self, f"_{name}", value)

    put.__name__, put.__doc__ = f"set_{name}", f"Set the {name}."
    setattr(Message, put.__name__, put)


for _name in ("topic", "partition", "offset", "key", "value", "headers", "error", "timestamp"):
    _field(_name)
for _name in ("latency", "leader_epoch"):
    _field(_name)
for _name in ("topic", "key", "value", "headers", "error"):
    _setter(_name)


CODE: Any = KafkaError  # which has the numbers of errors as attributes


def failure(code: int, reason: str | None = None, **kind: bool) -> KafkaException:
    """Return the exception with an error of librdkafka."""
    return KafkaException(KafkaError(code, reason, **kind))


def translated(error: errors.KafkaError) -> KafkaError:
    """Return the error of librdkafka for an exception of the simulated client."""
    if isinstance(error, errors.ProducerFencedError):
        return KafkaError(CODE._FENCED, str(error), fatal=True)
    if isinstance(error, errors.FencedInstanceIdError):
        return KafkaError(CODE._FATAL, str(error), fatal=True)
    if isinstance(error, errors.NoOffsetForPartitionError | errors.OffsetOutOfRangeError):
        return KafkaError(CODE._AUTO_OFFSET_RESET, str(error))
    if error.error is not None:
        return KafkaError(error.error, str(error))
    for kind, name in _KINDS.items():
        if isinstance(error, kind):
            return KafkaError(getattr(CODE, name), str(error))
    return KafkaError(CODE._FAIL, str(error))


_KINDS: dict[type[errors.KafkaError], str] = {
    errors.KafkaTimeoutError: "_TIMED_OUT",
    errors.IllegalStateError: "_STATE",
    errors.CommitFailedError: "UNKNOWN_MEMBER_ID",  # it is no member, so it was not sent
    errors.DisconnectError: "_TRANSPORT",
    errors.RetriableCommitFailedError: "_WAIT_COORD",
}
