"""What the consumer and the producer of kafka-python share: settings, exceptions, offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie import values
from coterie.testing.client import errors
from coterie.testing.client.settings import STRATEGY
from coterie.testing.kafka_python_errors import named, translated
from coterie.testing.kafka_python_types import OffsetAndMetadata
from coterie.testing.program_client import FOR_EVER_MS, Client
from coterie.testing.topics import TopicPartition

_WITHOUT_EFFECT = (  # noqa: SIM905 - settings of connections, for both
    "bootstrap_servers receive_buffer_bytes send_buffer_bytes receive_message_max_bytes "
    "socket_options security_protocol ssl_context ssl_check_hostname ssl_cafile ssl_certfile "
    "ssl_keyfile ssl_crlfile ssl_password ssl_ciphers api_version bootstrap_timeout_ms "
    "api_version_auto_timeout_ms connections_max_idle_ms metric_reporters metrics_enabled "
    "metrics_num_samples metrics_sample_window_ms selector sasl_mechanism sasl_plain_username "
    "sasl_plain_password sasl_kerberos_name sasl_kerberos_service_name sasl_kerberos_domain_name "
    "sasl_oauth_token_provider proxy_url socks5_proxy kafka_client reconnect_backoff_ms "
    "reconnect_backoff_max_ms max_in_flight_requests_per_connection client_dns_lookup "
    "allow_auto_create_topics"
).split()


def unknown(configs: dict[str, Any], *known: Any) -> set[str]:
    """Return the names of settings that the library does not know."""
    return set(configs).difference(_WITHOUT_EFFECT, *known)


def javas(config: dict[str, Any], names: str) -> dict[str, Any]:
    """Return settings by Kafka's names, as far as they are set."""
    return {
        name.replace("_", "."): config[name]
        for name in names.split()
        if config.get(name) is not None
    }


def refusal(settings: Mapping[str, Any], assignors: Iterable[str]) -> str | None:
    """Return why a library in Python does not take settings of Kafka's client; None: it does."""
    if settings.get("group.protocol") == "consumer":
        return "the library has no consumer protocol"
    names = settings.get(STRATEGY) or ()
    for name in names.split(",") if isinstance(names, str) else names:
        if name not in assignors:
            return f"the library has no assignor {name!r}"
    return None


class PythonClient(Client):
    """A client of kafka-python."""

    def _closed_failure(self) -> Exception:
        return named("IllegalStateError", f"{type(self).__name__} is closed")

    def _raised(self, error: errors.KafkaError) -> Exception:
        return translated(error)

    def _until(self, timeout_ms: float | None) -> int:
        """Return the time at the end of a timeout; None: in a long time."""
        wait_ms = FOR_EVER_MS if timeout_ms is None else min(timeout_ms, FOR_EVER_MS)
        return self._process.now_ms + round(wait_ms)

    def bootstrap_connected(self) -> bool:
        """Whether the client is connected: always."""
        return not self._closed

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Return no metrics."""
        return {}


def offsets_of(offsets: Any) -> dict[tuple[str, int], values.OffsetAndMetadata | int]:
    """Return offsets as a commit names them."""
    if not all(
        isinstance(tp, TopicPartition) and isinstance(at, OffsetAndMetadata)
        for tp, at in offsets.items()
    ):
        raise TypeError("offsets must be dict[TopicPartition, OffsetAndMetadata]")
    return {
        tp: values.OffsetAndMetadata(at.offset, at.leader_epoch, at.metadata or "")
        for tp, at in offsets.items()
    }
