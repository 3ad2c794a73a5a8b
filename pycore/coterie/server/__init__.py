"""A Kafka for tests and for clients of any language: the coordinator behind Kafka's protocol.

``Broker`` is the server in this process. The layers below it use no sockets and no clock: a
``Connection`` maps received bytes to responses, and the caller passes the time to a ``Cluster``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.server.broker import Broker

__all__ = ["Broker"]


if not TYPE_CHECKING:  # a connection without a loop needs neither threads nor asyncio

    def __getattr__(name):
        if name == "Broker":
            from coterie.server.broker import Broker

            return Broker
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
