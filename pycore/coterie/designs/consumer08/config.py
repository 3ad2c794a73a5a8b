"""Settings of a 0.8.2 consumer, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Settings of a consumer. Names and defaults are those of 0.8.2.2, ``_`` for ``.``."""

    zookeeper_session_timeout_ms: int = 6000
    zookeeper_sync_time_ms: int = 2000
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = -1  # below 0: zookeeper.sync.time.ms
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000
    auto_offset_reset: str = "largest"
    offsets_storage: str = "zookeeper"
    dual_commit_enabled: bool = True  # only if offsets are stored in Kafka
    offsets_channel_backoff_ms: int = 1000
    exclude_internal_topics: bool = True
    partition_assignment_strategy: str = "range"
    refresh_leader_backoff_ms: int = 200
    assignment: str = ""  # "ceiling": the design document's rule, in place of the strategy

    @property
    def backoff_ms(self) -> int:
        """The pause after a failed try, ms."""
        backoff_ms = self.rebalance_backoff_ms
        return self.zookeeper_sync_time_ms if backoff_ms < 0 else backoff_ms


KNOWN = {name.replace("_", "."): name for name in ConsumerConfig.__slots__}
CHOICES = {
    "auto_offset_reset": ("largest", "smallest"),
    "offsets_storage": ("zookeeper", "kafka"),
    "assignment": ("", "ceiling"),
}
LEAST = {"rebalance_max_retries": 0, "rebalance_backoff_ms": 0}


def consumer_config(*layers: Mapping[str, Any]) -> ConsumerConfig:
    """Read settings: text, numbers or booleans by Kafka's names; later ones win.

    Settings without an effect in the simulation are ignored.

    Raises
    ------
    ArgumentError
        A setting cannot have this value.
    """
    values: dict[str, Any] = {}
    for settings in layers:
        for key, value in settings.items():
            if key in KNOWN:
                values[KNOWN[key]] = _value(key, KNOWN[key], value)
    return ConsumerConfig(**values)


def _value(key: str, name: str, value: Any) -> Any:
    kind = type(getattr(ConsumerConfig(), name))
    if kind is bool:
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ArgumentError(f"{key}: {value!r} is neither true nor false")
    if kind is int:
        try:
            number = int(str(value))
        except ValueError:
            raise ArgumentError(f"{key}: {value!r} is not a whole number") from None
        least = LEAST.get(name, 1)
        if not least <= number < 2**31:
            raise ArgumentError(f"{key}: {number} is not in {least} to 2147483647")
        return number
    text = str(value)
    if text not in CHOICES.get(name, (text,)):
        raise ArgumentError(f"{key}: {text!r} is none of {', '.join(filter(None, CHOICES[name]))}")
    return text
