"""A Kafka for tests and for clients of any language: the coordinator behind Kafka's protocol.

``Broker`` is the server in this process. Below it nothing knows of sockets or of a clock: a
``Connection`` takes bytes and gives bytes, a ``Cluster`` is told what time it is.
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
