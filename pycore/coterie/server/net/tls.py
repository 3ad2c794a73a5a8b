"""TLS: the server context, and the principal of a client certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

from coterie.base.arguments import file_path
from coterie.base.user_files import FileTooLarge, read_bytes
from coterie.errors import ArgumentError
from coterie.server.services.sasl_refusals import ANONYMOUS

PEM_BYTES_MAX = 16 << 20  # a bundle of all public authorities has 0.3 MB
# OpenSSL's names of subject attributes -> Java's keywords (RFC 2253).
_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
# OpenSSL's reasons for first bytes that are no TLS record: the length of a frame, or HTTP.
_PLAIN_TEXT = {
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "WRONG_VERSION_NUMBER",
}
_EMAIL = "1.2.840.113549.1.9.1"
_IA5_STRING, _SHORT_FORM = 0x16, 0x80


def server_context(
    cert: str | Path, key: str | Path, client_ca: str | Path | None = None
) -> ssl.SSLContext:
    """Create a server context for TLS 1.2 and later.

    Parameters
    ----------
    cert, key
        PEM files: the certificate followed by its chain, and the key without a password.
    client_ca
        A PEM file of the authorities for client certificates; each client then needs one.

    Raises
    ------
    coterie.ArgumentError
        A file cannot be read or has the wrong content.
    """
    cert, key = file_path(cert, "certificate"), file_path(key, "key")
    client_ca = None if client_ca is None else file_path(client_ca, "client CA")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for what, file in (("certificate", cert), ("key", key), ("client CA", client_ca)):
        if file is not None:
            _check_readable(what, file)

    def password() -> str:
        raise ArgumentError(f"key {key}: it has a password; give one without")

    try:
        context.load_cert_chain(cert, key, password)
    except (ssl.SSLError, OSError) as error:
        raise ArgumentError(f"certificate {cert} with key {key}: {_reason(error)}") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            raise ArgumentError(f"client CA {client_ca}: {_reason(error)}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_readable(what: str, file: str | Path) -> None:
    try:
        read_bytes(file, PEM_BYTES_MAX)
    except OSError as error:
        raise ArgumentError(f"{what} {file}: {error.strerror}") from None
    except FileTooLarge as error:
        raise ArgumentError(f"{what} {file}: {error}") from None


def _reason(error: OSError, unknown: str = "it is no PEM file of that kind") -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return unknown


def handshake_failure(error: OSError) -> str:
    """Describe a failed handshake for the log, by OpenSSL's reason."""
    reason = getattr(error, "reason", None)
    if reason in _PLAIN_TEXT:
        return "the client spoke plain text to a TLS listener"
    return f"the TLS handshake failed: {_reason(error, 'no reason given')}"


def peer_principal(ssl_object: ssl.SSLObject | None) -> str:
    """Return a connection's principal in Kafka's form: the subject of its certificate.

    It is ``User:ANONYMOUS`` without a verified certificate.
    """
    certificate = None if ssl_object is None else ssl_object.getpeercert()
    subject = (certificate or {}).get("subject")
    if not subject:
        return ANONYMOUS
    names = ("+".join(_attribute(*pair) for pair in several) for several in reversed(subject))
    return "User:" + ",".join(names)


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress" and len(value) < _SHORT_FORM:
        data = bytes((_IA5_STRING, len(value))) + value.encode("ascii", "replace")
        return f"{_EMAIL}=#{data.hex()}"
    return f"{_KEYWORDS.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    """Escape a value as RFC 2253 has it."""
    text = "".join(f"\\{sign}" if sign in ',+"\\<>;' else sign for sign in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if value.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
