"""Exceptions by the names of kafka-python, and which one an error of the simulated client is."""

from __future__ import annotations

from typing import Any

from coterie.testing.client import errors
from coterie.testing.programs import ClientFailure
from coterie.values import Error


class KafkaError(ClientFailure, RuntimeError):
    """Base of all; of kafka-python 3 it is no RuntimeError."""

    retriable = False
    invalid_metadata = False

    def __str__(self) -> str:
        name, text = type(self).__name__, super().__str__()
        return f"{name}: {text}" if self.args else name


class RetriableError(KafkaError):
    """The same call may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The client has to look at the topics again."""

    invalid_metadata = True


class BrokerResponseError(KafkaError):
    """An error of a broker: ``errno`` is its number."""

    errno: int | None = None
    message: str | None = None
    description: str | None = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class AuthorizationError(BrokerResponseError):
    """The client is not authorized."""


_OF_THE_CLIENT: dict[type[KafkaError], str] = {  # base -> names
    KafkaError: "CommitFailedError IllegalArgumentError IllegalStateError KafkaConfigurationError "
    "KafkaProtocolError NoBrokersAvailable NoOffsetForPartitionError QuotaViolationError "
    "CorrelationIdError IncompatibleBrokerVersion InvalidReceiveError LogTruncationError "
    "UnknownBrokerIdError UnrecognizedBrokerVersion UnsupportedCodecError TransactionAbortedError",
    RetriableError: "Cancelled KafkaTimeoutError MetadataEmptyBrokerList NodeNotReadyError "
    "TooManyInFlightRequests",
    InvalidMetadataError: "KafkaConnectionError StaleMetadata",
}
_RENAMED = {  # where kafka-python has another name than Kafka
    Error.UNKNOWN_SERVER_ERROR: "UnknownError",
    Error.NONE: "NoError",
    Error.CORRUPT_MESSAGE: "CorruptRecordError",
    Error.INVALID_FETCH_SIZE: "InvalidFetchRequestError",
    Error.NOT_LEADER_OR_FOLLOWER: "NotLeaderForPartitionError",
    Error.MESSAGE_TOO_LARGE: "MessageSizeTooLargeError",
    Error.NETWORK_EXCEPTION: "NetworkExceptionError",
    Error.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicationAssignmentError",
    Error.INVALID_CONFIG: "InvalidConfigurationError",
}
_BASES: dict[type[KafkaError], tuple[int, ...]] = {
    InvalidMetadataError: (3, 5, 6, 9, 13, 56, 72, 74, 75, 80, 83, 84, 100, 103),
    RetriableError: (7, 14, 15, 16, 19, 20, 41, 51, 70, 71, 78, 88, 89, 106, 122, 123),
    AuthorizationError: (29, 30, 31, 53, 65),
}
_OLD_NAMES = {  # of version 2
    "GroupLoadInProgressError": Error.COORDINATOR_LOAD_IN_PROGRESS,
    "GroupCoordinatorNotAvailableError": Error.COORDINATOR_NOT_AVAILABLE,
    "NotCoordinatorForGroupError": Error.NOT_COORDINATOR,
    "CorruptRecordException": Error.CORRUPT_MESSAGE,
}


def name_of(error: Error, renamed: dict[Error, str]) -> str:
    """Return the name of a broker's error as a class: NOT_COORDINATOR, NotCoordinatorError."""
    words = "".join(word.capitalize() for word in error.name.removesuffix("_EXCEPTION").split("_"))
    return renamed.get(error, words if words.endswith("Error") else f"{words}Error")


def _class_of(error: Error) -> type[BrokerResponseError]:
    kinds = [base for base, numbers in _BASES.items() if error in numbers]
    bases = tuple(dict.fromkeys([*kinds, BrokerResponseError]))
    bases = bases[:1] if kinds == [AuthorizationError] else bases
    fields = {"errno": int(error), "message": error.name, "__module__": __name__}
    return type(name_of(error, _RENAMED), bases, fields)


_CLASSES = {int(error): _class_of(error) for error in Error}
_ALL: dict[str, type[KafkaError]] = {
    name: type(name, (base,), {"__module__": __name__})
    for base, names in _OF_THE_CLIENT.items()
    for name in names.split()
}
_ALL |= {kind.__name__: kind for kind in _CLASSES.values()}
_ALL |= {name: _CLASSES[error] for name, error in _OLD_NAMES.items()}
globals().update(_ALL)

__all__ = [  # noqa: PLE0604 - the names are texts
    *("AuthorizationError", "BrokerResponseError", "InvalidMetadataError", "KafkaError"),
    *("RetriableError", "for_code", *_ALL),
]


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of a broker's error."""
    return _CLASSES.get(error_code, _CLASSES[-1])


def named(name: str, *args: Any) -> KafkaError:
    """Return an exception by its name."""
    return _ALL[name](*args)


_KINDS: dict[type[errors.KafkaError], str] = {
    errors.KafkaTimeoutError: "KafkaTimeoutError",
    errors.IllegalStateError: "IllegalStateError",
    errors.CommitFailedError: "CommitFailedError",
    errors.NoOffsetForPartitionError: "NoOffsetForPartitionError",
    errors.DisconnectError: "KafkaConnectionError",
}


def translated(error: errors.KafkaError) -> KafkaError:
    """Return the exception for one of the simulated client."""
    if isinstance(error, errors.RetriableCommitFailedError):
        cause = error.__cause__
        return translated(cause) if isinstance(cause, errors.KafkaError) else RetriableError(error)
    refused = "error" in vars(error)  # by the coordinator
    if isinstance(error, errors.RebalanceInProgressError) and refused:
        return named("CommitFailedError", str(error))
    for kind, name in _KINDS.items():
        if isinstance(error, kind):
            return named(name, getattr(error, "partitions", None) or str(error))
    if isinstance(error, errors.OffsetOutOfRangeError):
        return for_code(1)(error.partitions)
    if error.error is not None:
        return for_code(error.error)(str(error))
    return KafkaError(str(error))
