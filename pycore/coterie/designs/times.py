"""The small times of a run: what real machines take for what a scenario does not say.

Settled outcomes do not depend on them; how many tries and conflicts there are on the way does.
Counts of rebalances depend on ``watch_ms`` beside ``start_gap_ms``: vary both by one factor.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.arguments import within

_LATEST_MS = 2**53  # what a scenario may wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long small things take, in ms of virtual time.

    Attributes
    ----------
    delivery_ms
        From a change in ZooKeeper until a client has the event of its watch.
    claim_ms
        From a consumer's release of its partitions until it reads the group and claims its share.
    start_gap_ms
        Between two consumers that a scenario starts at the same moment.
    watch_ms
        From a consumer's registration until it sets its watches.
    reconnect_ms
        Until a client that may connect to ZooKeeper again does so: above ``delivery_ms``, so that
        the others see an expired consumer's node go and come as two changes.
    """

    delivery_ms: int = 5
    claim_ms: int = 10
    start_gap_ms: int = 2
    watch_ms: int = 15
    reconnect_ms: int = 500

    def __post_init__(self) -> None:
        for name in self.__slots__:
            within(getattr(self, name), name, 0, _LATEST_MS)
