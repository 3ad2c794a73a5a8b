"""TLS and SASL by client properties: what the client library takes.

Tried against the servers of the tests: TLS with PEM files, PLAIN, SCRAM-SHA-256 and -512. GSSAPI,
OAUTHBEARER and AWS_MSK_IAM are passed to the libraries that have them.
Sources: SslFactory, DefaultSslEngineFactory (PEM), OAuthBearerLoginCallbackHandler.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from coterie.base.user_files import FileTooLarge, read_bytes
from coterie.live.client_config import ClientConfig
from coterie.live.cluster_errors import ClusterError

PEM = "-----BEGIN"
BLOCK = re.compile(r"(-----BEGIN [A-Z ]+-----)([^:]*?)(-----END [A-Z ]+-----)")
PEM_BYTES_MAX = 16 << 20
SIGNER = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"  # a module of the package
TOKEN_TIMEOUT_S = 30


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """Return the TLS context of ``ssl.*``; None if ``security.protocol`` has no TLS.

    Raises
    ------
    ConfigError
        A file cannot be read or is not PEM.
    """
    if not config.text("security.protocol").endswith("SSL"):
        return None
    context = ssl.create_default_context()
    if not config.text("ssl.endpoint.identification.algorithm").strip():
        context.check_hostname = False
    trusted = _pem(config, "ssl.truststore", "certificates")
    if trusted is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = bool(config.text("ssl.endpoint.identification.algorithm").strip())
        try:
            context.load_verify_locations(cadata=trusted)
        except (ssl.SSLError, ValueError) as error:
            raise config.error("ssl.truststore.*", f"has no certificate: {error}") from None
    chain = _pem(config, "ssl.keystore", "certificate.chain")
    if chain is not None:
        key = _in_lines(config.text("ssl.keystore.key"))
        password = config.text("ssl.key.password")
        with _private_file(f"{chain}\n{key}\n") as path:  # OpenSSL reads it from a file only
            try:
                context.load_cert_chain(path, password=lambda: password)
            except (ssl.SSLError, ValueError) as error:
                what = f"has no certificate with its key, or needs ssl.key.password: {error}"
                raise config.error("ssl.keystore.*", what) from None
    return context


def _pem(config: ClientConfig, store: str, inline: str) -> str | None:
    """Return a store as PEM: inline, or of its file; None if neither is set."""
    text, location = config.text(f"{store}.{inline}"), config.text(f"{store}.location")
    if text.strip():
        return _in_lines(text)
    if not location:
        return None
    try:
        text = read_bytes(location, PEM_BYTES_MAX).decode("latin-1")
    except OSError as error:
        raise config.error(f"{store}.location", f"{location}: {error.strerror}") from None
    except FileTooLarge as error:
        raise config.error(f"{store}.location", f"{location}: {error}") from None
    if PEM not in text:
        how = "is not PEM; `keytool -list -rfc` or `openssl pkcs12` converts a store to it"
        raise config.error(f"{store}.location", f"{location}: {how}")
    return text


def _in_lines(text: str) -> str:
    """Return inline PEM with line ends, which continued lines of a properties file lack."""
    return BLOCK.sub(lambda block: "\n".join([block[1], *block[2].split(), block[3], ""]), text)


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yield a file with a text that only this user may read; removed at the end."""
    number, path = tempfile.mkstemp(prefix="coterie-", suffix=".pem")
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def sasl_arguments(config: ClientConfig) -> dict[str, Any]:
    """Return the arguments of the client library's connections for ``sasl.*``.

    Raises
    ------
    ConfigError
        ``sasl.jaas.config`` lacks an option that the mechanism needs, or a package is missing.
    """
    if not config.text("security.protocol").startswith("SASL"):
        return {}
    mechanism = config.text("sasl.mechanism").strip()
    if mechanism == "GSSAPI":
        _needs(config, "gssapi", "pip install gssapi")
        service = config.jaas.options.get("serviceName", config.text("sasl.kerberos.service.name"))
        return {"sasl_mechanism": mechanism, "sasl_kerberos_service_name": service}
    if mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"):
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _tokens(config)}
    options = config.jaas.options
    for name in ("username", "password"):
        if name not in options:
            raise config.error("sasl.jaas.config", f'has no {name}="..."; {mechanism} needs it')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _needs(config: ClientConfig, module: str, how: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        name = "sasl.mechanism"
        what = f"{config.text(name)} needs the package {module.partition('.')[0]}; {how}"
        if name not in config.values:
            what = f"is not set; Kafka's default {what}, or name the listener's mechanism"
        raise config.error(name, what) from None


def _tokens(config: ClientConfig) -> Any:
    """Return a provider of tokens: signed for AWS, or from the endpoint of the properties."""
    import asyncio

    from aiokafka.abc import AbstractTokenProvider

    if config.text("sasl.mechanism").strip() == "AWS_MSK_IAM":
        signer = _needs(config, SIGNER, "pip install aws-msk-iam-sasl-signer-python")

        def token() -> str:  # MSK takes a token that is signed by IAM as OAUTHBEARER, too
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            if not region:
                raise ClusterError("AWS_MSK_IAM: set AWS_REGION to the region of the cluster")
            return str(signer.generate_auth_token(region)[0])

    else:
        name = "sasl.oauthbearer.token.endpoint.url"
        url = config.text(name)
        if not url:
            raise config.error(name, "is missing")
        if urlsplit(url).scheme not in ("http", "https", "file"):
            raise config.error(name, f"must be a URL of http, https or file, not {url!r}")

        def token() -> str:
            return _token_of(url, config)

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return await asyncio.to_thread(token)

    return Tokens()


def _token_of(url: str, config: ClientConfig) -> str:
    """Return a token: of a file, or granted for the client's credentials (RFC 6749, 4.4)."""
    from urllib.request import Request, urlopen

    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(parts.path).read_text(encoding="utf-8").strip()
        options = config.jaas.options
        login = f"{options.get('clientId', '')}:{options.get('clientSecret', '')}"
        fields = {"grant_type": "client_credentials"}
        if "scope" in options:
            fields["scope"] = options["scope"]
        request = Request(url, urlencode(fields).encode())
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        with urlopen(request, timeout=TOKEN_TIMEOUT_S) as answer:
            return str(json.loads(answer.read(PEM_BYTES_MAX))["access_token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{url}: gives no token: {error}") from None
