"""Kafka's client properties: those that connections here follow, with Kafka's defaults.

Sources: CommonClientConfigs, SaslConfigs, SslConfigs, ConsumerConfig. Properties without an effect
here are not refused: ``unused`` names them, so that a command can say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coterie.base.properties import MalformedProperties, read_properties
from coterie.base.user_files import FileTooLarge, read_bytes
from coterie.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
DEFAULTS = {
    "client.id": "coterie",
    "client.rack": "",
    "security.protocol": "PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.jaas.config": "",
    "sasl.kerberos.service.name": "kafka",
    "sasl.oauthbearer.token.endpoint.url": "",
    "ssl.truststore.type": "",
    "ssl.truststore.location": "",
    "ssl.truststore.certificates": "",
    "ssl.keystore.type": "",
    "ssl.keystore.location": "",
    "ssl.keystore.certificate.chain": "",
    "ssl.keystore.key": "",
    "ssl.key.password": "",
    "ssl.endpoint.identification.algorithm": "https",
    "socket.connection.setup.timeout.ms": "10000",
    "request.timeout.ms": "30000",
    "default.api.timeout.ms": "60000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "metadata.max.age.ms": "300000",
    "fetch.max.wait.ms": "500",
    "max.partition.fetch.bytes": "8388608",
}
INT32_MAX = 2**31 - 1
MODULE = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.I)
OPTION = re.compile(
    r"""\s*([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
PROPERTIES_BYTES_MAX = 1 << 20
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # control characters that no text has


@dataclass(frozen=True)
class Jaas:
    """The login module of ``sasl.jaas.config``, and its options."""

    module: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class ClientConfig:
    """Client properties.

    Attributes
    ----------
    values : mapping of str to str
        The properties that have an effect here, by Kafka's names.
    source : str
        Where they are from, for messages.
    unused : tuple of str
        The names of the other properties.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    source: str = "the defaults"
    unused: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """Return a property, or Kafka's default."""
        return self.values.get(name, DEFAULTS[name])

    def whole(self, name: str) -> int:
        """Return a property that is a whole number from 0 to 2147483647."""
        text = self.text(name).strip()
        if not re.fullmatch("[0-9]{1,10}", text) or int(text) > INT32_MAX:
            raise self.error(name, f"must be a number from 0 to {INT32_MAX}, not {text!r}")
        return int(text)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a property that has one of a few values."""
        text = self.text(name).strip()
        if text not in allowed:
            raise self.error(name, f"must be one of {', '.join(allowed)}, not {text!r}")
        return text

    @property
    def jaas(self) -> Jaas:
        """The login module of ``sasl.jaas.config``; no options if the property is not set."""
        text = self.text("sasl.jaas.config")
        match = MODULE.match(text)
        if match is None:
            if text.strip():
                raise self.error("sasl.jaas.config", 'must be MODULE required NAME="VALUE" ...;')
            return Jaas("", {})
        options, at = {}, match.end()
        while option := OPTION.match(text, at):
            quoted = option[2] if option[2] is not None else option[3]
            value = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            options[option[1]] = value
            at = option.end()
        if text[at:].strip() not in (";", ""):
            what = f"cannot be read after option {len(options)}"  # the rest may hold a password
            raise self.error("sasl.jaas.config", f'{what}: write NAME="VALUE" ... and a semicolon')
        return Jaas(match[1], options)

    def error(self, name: str, what: str) -> ConfigError:
        """Return the error for a property."""
        return ConfigError(f"{self.source}: {name} {what}")

    def check(self) -> None:
        """Raise ConfigError if a property has a wrong value; files are read when connecting."""
        for name, default in DEFAULTS.items():
            if default.isdigit():
                self.whole(name)
        if self.choice("security.protocol", PROTOCOLS).startswith("SASL"):
            self.choice("sasl.mechanism", MECHANISMS)
            _ = self.jaas


def read_client_config(file: str | Path) -> ClientConfig:
    """Read a file of client properties, as ``--command-config`` of Kafka's tools.

    Raises
    ------
    ConfigError
        The file cannot be read, or a property has a wrong value.
    """
    try:
        data = read_bytes(file, PROPERTIES_BYTES_MAX)
        if BINARY.search(data):  # every byte is a letter to Java, so each name would have no effect
            raise ConfigError(f"{file}: binary data; name a file of client properties")
        properties = read_properties(data)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}; name a file of client properties") from None
    except (MalformedProperties, FileTooLarge) as error:
        raise ConfigError(f"{file}: {error}") from None
    known = {name: value for name, (value, _) in properties.items() if name in DEFAULTS}
    unused = tuple(name for name in properties if name not in DEFAULTS)
    config = ClientConfig(known, str(file), unused)
    config.check()
    return config
