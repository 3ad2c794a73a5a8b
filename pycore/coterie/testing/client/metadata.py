"""The partition counts of topics, as a client knows them. Source: ``Metadata.java``."""

from __future__ import annotations

from coterie.testing.client.network import NetworkClient


class Metadata:
    """The partition counts of topics, as a client knows them.

    They are refreshed when they are ``metadata.max.age.ms`` old, when new topics are needed, and
    after an error that shows that they are wrong.
    """

    def __init__(self, network: NetworkClient) -> None:
        self._network = network
        self.counts: dict[str, int] = {}
        self.version = 0
        self.refresh_ms: int | None = None  # when it is refreshed next; None: not yet needed
        self._refreshed_ms = 0

    def request_update(self) -> None:
        """Refresh in the next poll."""
        self.refresh_ms = self._network.now_ms

    def retry(self) -> None:
        """Refresh, but ``retry.backoff.ms`` after the last time: nothing new may have come."""
        network = self._network
        self.refresh_ms = max(
            network.now_ms, self._refreshed_ms + network.settings["retry.backoff.ms"]
        )

    @property
    def next_ms(self) -> int | None:
        """When it is refreshed next, ms; None: a client that is cut off does not know."""
        return self.refresh_ms if self._network.host.cut_ms is None else None

    @property
    def due(self) -> bool:
        """Whether it is time to refresh."""
        refresh_ms, network = self.refresh_ms, self._network
        return (
            refresh_ms is not None and refresh_ms <= network.now_ms and network.host.cut_ms is None
        )

    def update(self, topics: frozenset[str], *, everything: bool) -> None:
        """Refresh the counts of these topics, or of all."""
        cluster = self._network.cluster._topics
        names = cluster if everything else [name for name in topics if name in cluster]
        counts = {name: len(cluster[name].logs) for name in names}
        if everything or counts != self.counts:  # a new expression may match the same topics
            self.counts = counts
            self.version += 1
        settings = self._network.settings
        missing = not everything and not counts.keys() >= topics
        age = "retry.backoff.max.ms" if missing else "metadata.max.age.ms"
        self._refreshed_ms = self._network.now_ms
        self.refresh_ms = self._refreshed_ms + settings[age]
