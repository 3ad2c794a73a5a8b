"""Delays that a scenario does not give, such as that of a watch event.

They do not change who owns what in the end. They change how many tries and conflicts there are.
The number of rebalances depends on the ratio of ``watch_ms`` to ``start_gap_ms``: scale both by one
factor.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.base.arguments import within

_LATEST_MS = 2**53  # the latest time of a scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Delays, in ms of virtual time.

    Attributes
    ----------
    delivery_ms
        From a change in ZooKeeper until the client receives the watch event.
    claim_ms
        From a consumer's release of its partitions until it reads the group and claims its share.
    start_gap_ms
        Between two consumers that a scenario starts at the same moment.
    watch_ms
        From a consumer's registration until it sets its watches.
    reconnect_ms
        Until a client that is allowed to connect to ZooKeeper again does so. It is longer than
        ``delivery_ms``, so that others see an expired consumer's node go and come back as two
        changes.
    """

    delivery_ms: int = 5
    claim_ms: int = 10
    start_gap_ms: int = 2
    watch_ms: int = 15
    reconnect_ms: int = 500

    def __post_init__(self) -> None:
        for name in self.__slots__:
            within(getattr(self, name), name, 0, _LATEST_MS)
