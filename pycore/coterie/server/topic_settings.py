"""The topic settings that partitions read."""

from __future__ import annotations

from dataclasses import dataclass

_NEVER = 2**63 - 1


@dataclass
class LogSettings:
    """Settings of a topic's log, by Kafka's names; its partitions share one object."""

    max_message_bytes: int = 1048588
    append_time: bool = False
    compacted: bool = False
    deleted: bool = True
    timestamp_before_max_ms: int = _NEVER
    timestamp_after_max_ms: int = _NEVER
    retention_ms: int = -1
    retention_bytes: int = -1
    segment_bytes: int = 1073741824
    segment_ms: int = 604800000
    segment_index_bytes: int = 10485760
    index_interval_bytes: int = 4096

    @property
    def looks_at_records(self) -> bool:
        """Whether some setting requires checks of single records, even of compressed ones."""
        if self.compacted:
            return True
        limits = (self.timestamp_before_max_ms, self.timestamp_after_max_ms)
        return not self.append_time and limits != (_NEVER, _NEVER)
