"""Errors of a cluster: one line that says what failed, where, and what to do."""

from __future__ import annotations

from typing import TypeVar

from coterie.errors import CoterieError
from coterie.values import Error
from coterie.wire.apis import name_of

Failure = TypeVar("Failure", bound="ClusterError")


class ClusterError(CoterieError):
    """A cluster refuses a request, or answers with bytes that are no response."""


class NoPermission(ClusterError):
    """An operation that the user may not do."""


class NoTopic(ClusterError):
    """A topic that the cluster does not have."""


class MadeAgain(ClusterError):
    """A topic that was deleted and made again: its log is another; ``topic_id``: of the new one."""

    def __init__(self, topic: str, topic_id: str) -> None:
        super().__init__(f"topic {topic} was made again; fetch into another folder")
        self.topic, self.topic_id = topic, topic_id


class Unavailable(ClusterError):
    """A leader, a broker or a connection that is not there now, but may be soon."""


class Damaged(Unavailable):
    """A partition of which a broker goes on to send damaged batches."""


class NotWritten(Unavailable):
    """A file of the copy that cannot be written now: no space, or no descriptor."""


class Unreached(Unavailable):
    """A broker that cannot be connected; ``took_s``: how long that was tried."""

    def __init__(self, text: str, took_s: float = 0.0) -> None:
        super().__init__(text)
        self.took_s = took_s


_PASSING = {
    Error.UNKNOWN_TOPIC_OR_PARTITION,  # of a partition that moves; Metadata says it of a topic
    Error.LEADER_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.REQUEST_TIMED_OUT,
    Error.BROKER_NOT_AVAILABLE,
    Error.REPLICA_NOT_AVAILABLE,
    Error.NETWORK_EXCEPTION,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR,
    Error.FENCED_LEADER_EPOCH,
    Error.UNKNOWN_LEADER_EPOCH,
    Error.UNKNOWN_TOPIC_ID,  # Metadata says whether the topic was made again
    Error.INCONSISTENT_TOPIC_ID,
    78,  # OFFSET_NOT_AVAILABLE: a new leader does not know its high watermark yet
}
_PERMISSIONS = {
    Error.TOPIC_AUTHORIZATION_FAILED: "on the topic",
    Error.GROUP_AUTHORIZATION_FAILED: "on the group",
    Error.CLUSTER_AUTHORIZATION_FAILED: "on the cluster",
}


def refusal(code: int, where: str, needed: str) -> ClusterError:
    """Return the error for a code of a response.

    Parameters
    ----------
    code
        The error code.
    where
        The topic, the partition or the group of the request, as ``__consumer_offsets-7``.
    needed
        The operation that has to be allowed, as ``READ``.
    """
    if code in _PERMISSIONS:
        on = _PERMISSIONS[Error(code)]
        return NoPermission(f"{where}: no permission: the user needs {needed} {on}")
    name = name_of(code)
    what = f"error {code}" if name == "UNKNOWN_SERVER_ERROR" and code != -1 else name
    kind = Unavailable if code in _PASSING else ClusterError
    return kind(f"{where}: the broker answers {what}")


def without_calls(error: Failure) -> Failure:
    """Return an error without the calls it went through: they hold the response that it is about.

    For errors that stay while other responses come.
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
