from collections.abc import Callable, Mapping
from typing import Any, final

from typing_extensions import Self, disjoint_base

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
