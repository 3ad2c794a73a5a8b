"""SaslHandshake and SaslAuthenticate: the responses to the decisions of ``services.sasl``."""

from __future__ import annotations

from typing import Any

from coterie.server.api.call import Call
from coterie.server.api.table import refusal
from coterie.server.services.authentication import MECHANISMS
from coterie.values import Error

TOO_LATE = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(call: Call) -> None:
    """Answer SaslHandshake; it is refused on a listener without SASL and after a handshake."""
    authentication = call.connection.authentication
    error = Error.ILLEGAL_SASL_STATE
    if authentication is not None:
        error = authentication.handshake(call.body["mechanism"], call.api_version)
    mechanisms = [] if error is Error.ILLEGAL_SASL_STATE else list(MECHANISMS)
    _answer(call, {"errorCode": int(error), "mechanisms": mechanisms})


def sasl_authenticate(call: Call) -> None:
    authentication = call.connection.authentication
    if authentication is None or not authentication.tokens:
        body = {"errorCode": int(Error.ILLEGAL_SASL_STATE), "errorMessage": TOO_LATE}
        return call.answer({**body, "authBytes": b""})
    answer = authentication.authenticate(call.body["authBytes"])
    return _answer(
        call,
        {
            "errorCode": int(answer.error),
            "errorMessage": answer.message,
            "authBytes": answer.token,
            "sessionLifetimeMs": answer.lifetime_ms,
        },
    )


def refuse(call: Call, error: int) -> None:
    """Answer either request with an error, which ends an incomplete authentication."""
    authentication = call.connection.authentication
    if error and authentication is not None:
        authentication.refuse()
    _answer(call, refusal(call.api_key, call.api_version, call.body, error) or {})


def _answer(call: Call, body: dict[str, Any]) -> None:
    """Send a response; a refusal is sent after the delay, and the connection closes."""
    connection, cluster = call.connection, call.cluster
    authentication = connection.authentication
    if authentication is None or not authentication.failed:
        return call.answer(body)
    if authentication.failed_login is not None:
        line = f"{connection.client_host}: {authentication.failed_login}"
        cluster.log_limited(("login", authentication.failed_login.known_mechanism), line)

    def end() -> None:
        if not connection.closing:
            call.answer(body)
            connection.close()

    delay_ms = cluster.config["connection.failed.authentication.delay.ms"]
    cluster.waits.call_later(delay_ms, end)
    return None
