"""Exceptions by the names of aiokafka, which are those of kafka-python 2 and some of its own."""

from __future__ import annotations

from coterie.testing import kafka_python_errors
from coterie.testing.kafka_python_errors import KafkaError, for_code
from coterie.testing.programs import ClientFailure


class ConsumerStoppedError(ClientFailure):
    """The consumer has been stopped."""


class IllegalOperation(ClientFailure):
    """The client has no group or no transaction for this call."""


_ALL: dict[str, type[Exception]] = {
    **{name: getattr(kafka_python_errors, name) for name in kafka_python_errors.__all__},
    **{
        name: type(name, (KafkaError,), {"__module__": __name__})
        for name in (
            *("ProducerClosed", "ProducerFenced", "RecordTooLargeError", "KafkaUnavailableError"),
            *("AuthenticationFailedError", "AuthenticationMethodNotSupported"),
        )
    },
}
_ALL |= {  # from 45 on its names lack the ending
    kind.__name__.removesuffix("Error"): kind for kind in map(for_code, range(45, 80))
}
_ALL |= {"InvalidMessageError": for_code(2), "StaleLeaderEpochCodeError": for_code(13)}
globals().update(_ALL)

__all__ = [*("ConsumerStoppedError", "IllegalOperation"), *_ALL]  # noqa: PLE0604
