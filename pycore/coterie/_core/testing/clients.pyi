"""What simulated clients do often: requests in virtual time, and looks for records.

Two subjects: the network between clients and brokers, with its delays and losses, and the positions
of a consumer in its partitions. No clock but the virtual one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self, final

from typing_extensions import disjoint_base

from coterie._core.structures.schedule import Timer, Waiter

@disjoint_base
class Host:
    """The state of a client's connections; it outlives the client's processes.

    Attributes
    ----------
    name : str
        The client's.
    cut_ms : int or None
        Since when it has been cut off from all brokers.
    slow_ms : int
        How much longer each request and each response takes.
    faults : list
        What happens to the next requests: each has ``kind``, ``op`` (None: any), ``times`` left and
        ``error``.
    stalled : list of ClientRequest
        What waits until the connection heals.
    connections : list of Connection
        Those of its processes.
    """

    cut_ms: int | None
    slow_ms: int
    def __new__(cls, name: str) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def faults(self) -> list[Any]: ...
    @property
    def stalled(self) -> list[ClientRequest]: ...
    @property
    def connections(self) -> list[Connection]: ...
    def take(self, kind: str, op: str) -> Any:
        """Return a fault that strikes now, and count it."""

@final
class Sent:
    """The result of a request: it comes later.

    Attributes
    ----------
    done : bool
        Whether the request has succeeded or failed.
    value
        Its result.
    failure : KafkaError or None
        Why it failed.
    """

    @property
    def done(self) -> bool: ...
    @property
    def value(self) -> Any: ...
    @property
    def failure(self) -> Any: ...
    @staticmethod
    def failed(failure: Exception) -> Sent:
        """Return one that has failed already."""
    def then(self, function: Callable[[Sent], None]) -> None:
        """Call a function when it is done."""
    def complete(self, value: Any = None) -> None:
        """Succeed."""
    def fail(self, failure: Exception) -> None:
        """Fail."""

@final
class ClientRequest(Timer):
    """A request under way: the schedule's call by which it arrives, and then its response.

    Attributes
    ----------
    connection : Connection
        The connection that it was sent on.
    handler : function
        Takes the response; None: the connection is broken, and there will be no response.
    node : int or None
        The coordinator that it is for; None: any broker.
    values, fields : tuple, dict
        The arguments of the operation ``op``.
    response
        The response, once the broker has given it.
    done : bool
        Whether the client has it, or has given it up.
    """

    @property
    def connection(self) -> Connection: ...
    @property
    def op(self) -> str: ...
    @property
    def handler(self) -> Callable[[Any], None]: ...
    @property
    def node(self) -> int | None: ...
    @property
    def values(self) -> tuple[Any, ...]: ...
    @property
    def fields(self) -> dict[str, Any]: ...
    @property
    def response(self) -> Any: ...
    @property
    def done(self) -> bool: ...

@final
class Loss(Timer):
    """The time when a client learns that a request will have no response."""

@disjoint_base
class Connection:
    """The connections of one process of a client.

    Parameters
    ----------
    cluster
        What it connects to: it has ``latency_ms`` and ``on_note``, ``_handle`` carries out a
        request that has arrived, and ``_refusal`` makes the response that refuses one.
    host : Host
        The state that all processes of the client share.
    process : Waiter
        Runs the handlers of responses; the requests of a dead one are not sent.
    settings : mapping
        The client's, by Kafka's names.

    Attributes
    ----------
    coordinator : int or None
        The broker that coordinates the group, as far as the client knows.
    in_background : bool
        Whether the heartbeat thread runs, and handles responses.
    in_poll : bool
        Whether the application waits in ``poll``.
    """

    coordinator: int | None
    in_background: bool
    in_poll: bool
    def __new__(
        cls, cluster: Any, host: Host, process: Waiter, settings: Mapping[str, Any]
    ) -> Self: ...
    @property
    def cluster(self) -> Any: ...
    @property
    def host(self) -> Host: ...
    @property
    def client_id(self) -> str: ...
    @property
    def process(self) -> Waiter: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def now_ms(self) -> int:
        """The time, in ms."""
    @property
    def perfect(self) -> bool:
        """Whether nothing can go wrong with a request now."""
    @property
    def sees_ms(self) -> int:
        """The time up to which records have reached the client, ms."""
    def close(self) -> None:
        """Forget everything under way; brokers may still carry it out."""
    def note(self, kind: str, details: Any = None) -> None:
        """Tell the cluster's ``on_note`` what the client does."""
    def wake(self) -> None:
        """Let a call that waits look again."""
    def handle_responses(self) -> None:
        """Handle the responses that have come, without waiting: a poll of 0 ms."""
    def wait(self, until_ms: int | None) -> bool:
        """Wait until something has happened, or a time has come; handle responses meanwhile.

        Return whether it has been woken.
        """
    def wait_for(self, sent: Sent, deadline_ms: int) -> bool:
        """Wait for a result; return whether it has come in time."""
    def send(
        self,
        op: str,
        handler: Callable[[Any], None],
        *args: Any,
        timeout_ms: int | None = None,
        **fields: Any,
    ) -> None:
        """Send a request to any broker.

        ``handler`` takes the response, or None after a disconnection.
        """
    def send_to_coordinator(
        self,
        op: str,
        handler: Callable[[Any], None],
        *args: Any,
        timeout_ms: int | None = None,
        **fields: Any,
    ) -> None:
        """Send a request to the coordinator, which must be known."""
    def forget_coordinator(self) -> None:
        """Forget the coordinator, and give up what is under way there."""
    def resend(self, request: ClientRequest) -> None:
        """Go on with a request that has stalled."""
    def expect_timeouts(self) -> None:
        """Give every request under way a timer: its response may not come."""
    def answer(self, request: ClientRequest, response: Any) -> None:
        """Send the response to a request."""
    def never(self, request: ClientRequest) -> None:
        """Give a request a timeout: no broker will respond to it."""

@disjoint_base
class LogEnds:
    """The offsets of a partition's log: those of a rate, with appended ones between them.

    Attributes
    ----------
    log_start_offset : int
        The first offset that has not been deleted.
    """

    log_start_offset: int
    _phase: Any
    _stopped: int
    def __new__(cls, topic: str, partition: int) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def _offsets(self) -> list[int]: ...
    @property
    def _appended(self) -> list[Any]: ...
    @property
    def _open(self) -> dict[int, int]: ...
    def end_offset(self, at_ms: int) -> int:
        """Return the next offset at a time, which must be now or within the present phase."""
    def last_stable_offset(self, at_ms: int) -> int:
        """Return the end of what ``read_committed`` may read."""
    def next_record_ms(self, at_ms: int) -> int | None:
        """Return when the rate gives the next record after a time; None: it gives none."""

@final
class PartitionState:
    """Where a consumer is in a partition.

    Attributes
    ----------
    position : int or None
        The offset that it reads next; None: not known yet.
    reset : str or None
        ``"earliest"`` or ``"latest"``: its position is being looked up.
    paused, pending_revocation : bool
        Whether the application has paused it; whether it will be revoked.
    pending_assigned : bool
        Whether ``on_partitions_assigned`` has yet to be called with it (consumer protocol).
    retry_ms : int
        No look-up is sent before this time.
    """

    position: int | None
    reset: str | None
    retry_ms: int
    paused: bool
    pending_revocation: bool
    pending_assigned: bool
    @property
    def valid(self) -> bool:
        """Whether it has a position."""
    def seek(self, position: int) -> None:
        """Go on from an offset."""

@disjoint_base
class AssignedPartitions:
    """The partitions of a consumer, in the order in which it reads them.

    Attributes
    ----------
    assigned : dict
        The state of each partition.
    """

    assigned: dict[Any, PartitionState]
    def __new__(cls, *_: Any) -> Self: ...
    @property
    def all_valid(self) -> bool:
        """Whether each partition has a position."""
    def positions(self, made: Callable[[int], Any] | None = None) -> dict[Any, Any]:
        """Return the positions of all partitions that have one, as they are or made of them."""
    def beyond_positions(
        self, topics: dict[str, Any], sees_ms: int, committed: bool
    ) -> list[tuple[Any, Any, Any, int]]:
        """Return the fetchable partitions that are not at their ends, in the order of reading.

        Each with its state, its log and the end of that, at the time ``sees_ms``. A partition that
        does not exist has neither: None and -1. A position may also be before the log, or after
        its end. ``committed``: up to the last stable offset. ``topics``: each has the ``logs`` of
        its partitions.
        """
    def next_record_ms(self, topics: dict[str, Any], sees_ms: int) -> int | None:
        """Return when a rate gives the next record of a fetchable partition; None: none does."""
    def to_end(self, partition: Any) -> None:
        """Read a partition after all others."""

def earliest(*times_ms: int | None) -> int | None:
    """Return the earliest time; None: never."""
