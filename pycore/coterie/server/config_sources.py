"""Read settings from a properties file, environment variables and ``KEY=VALUE``.

Each overrides those before it: defaults, ``--config``, ``--environment``, ``--set``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from coterie.base.properties import MalformedProperties, read_properties
from coterie.base.settings import is_known
from coterie.errors import ConfigError
from coterie.server.config import DEFAULTS, refuse_foreign

_WHOLE, _DECIMAL = re.compile(r"[+-]?[0-9]{1,20}"), re.compile(r"[+-]?[0-9]{0,9}\.[0-9]{1,20}")
_VARIABLE, _OF_BITNAMI = "KAFKA_", "KAFKA_CFG_"
# Variables that the images read for themselves: KafkaDockerWrapper.scala of Apache's image,
# kafka.properties.template of Confluent's.
_OF_IMAGES = re.compile(
    r"KAFKA_(VERSION|HOME|OPTS|HEAP_OPTS|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS|DEBUG\w*|JMX_\w+"
    r"|LOG4J_\w+|TOOLS_LOG4J_\w+|ZOOKEEPER_CLIENT_CNXN_SOCKET"
    # Kubernetes makes these for a service that is named kafka.
    r"|PORT|PORT_[0-9]\w*|SERVICE_HOST|SERVICE_PORT\w*)"
)


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE`` of a command line: the value a bool, a number, or text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r} must be KEY=VALUE")
    return name, _value_of(value)


def _value_of(text: str) -> Any:
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    kind = int if _WHOLE.fullmatch(text) else float if _DECIMAL.fullmatch(text) else str
    return kind(text)


def merged_settings(
    file: str | None, environment: Mapping[str, str] | None, assignments: Iterable[str]
) -> dict[str, Any]:
    """Return the settings of a file, of environment variables and of ``KEY=VALUE``, merged.

    Parameters
    ----------
    file
        A Java properties file; None: none.
    environment
        The environment of the process; None: ignore it.
    assignments
        Texts ``KEY=VALUE``, as of ``--set``.

    Raises
    ------
    ConfigError
        A file that cannot be read, or a name that no Kafka broker knows. The message says where.
    """
    settings: dict[str, Any] = {}
    if file is not None:
        settings.update(_of_file(file))
    if environment is not None:
        of_variables = _of_environment(environment)
        _derive_listeners(of_variables, settings)
        settings.update(of_variables)
    for name, value in map(read_setting, assignments):
        refuse_foreign(name, "--set: ")
        settings[name] = value
    return settings


def _of_file(file: str) -> dict[str, Any]:
    try:
        properties = read_properties(Path(file).read_bytes())
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}; name a properties file") from None
    except MalformedProperties as error:
        raise ConfigError(f"--config {file}: {error}") from None
    for name, (_, line) in properties.items():
        refuse_foreign(name, f"{file}:{line}: ")
    return {name: _value_of(value) for name, (value, _) in properties.items()}


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    is_bitnami = any(variable.startswith(_OF_BITNAMI) for variable in environment)
    beginning = _OF_BITNAMI if is_bitnami else _VARIABLE  # the others are the image's own
    for variable in sorted(environment):
        if variable.startswith(beginning) and not _OF_IMAGES.fullmatch(variable):
            if is_bitnami and not environment[variable]:
                continue  # the image leaves out what is empty
            name = _bitnami_name_of(variable) if is_bitnami else _name_of(variable)
            refuse_foreign(name, f"environment variable {variable}: ")
            settings[name] = _value_of(environment[variable])
    return settings


def _name_of(variable: str) -> str:
    """Return the name of the setting that a variable sets.

    ``_`` is a dot in both images. In Apache's ``__`` is an underscore and ``___`` a dash (its
    docker/examples/README.md); in Confluent's ``__`` is a dash and ``___`` an underscore (its
    "Docker Configuration Parameters"). The first reading is taken if it gives a name that Kafka
    knows.
    """
    dotted = variable.removeprefix(_VARIABLE).lower().replace("_", ".")
    of_apache = dotted.replace("...", "-").replace("..", "_")
    of_confluent = dotted.replace("...", "_").replace("..", "-")
    names = [name for name in (of_apache, of_confluent) if _mechanism_fits(name)]
    return next((name for name in names if name in DEFAULTS or is_known(name)), of_apache)


def _bitnami_name_of(variable: str) -> str:
    """Return the name of the setting that a variable of Bitnami's image sets.

    Each ``_`` is a dot, but not that of a security protocol
    (``kafka_configure_from_environment_variables`` of its libkafka.sh).
    """
    dotted = variable.removeprefix(_OF_BITNAMI).lower().replace("_", ".")
    return dotted.replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext")


def _mechanism_fits(name: str) -> bool:
    """Whether a SASL mechanism in the name has its dashes."""
    return "scram_sha_" not in name


def _derive_listeners(of_variables: dict[str, Any], of_file: Mapping[str, Any]) -> None:
    """Without a variable for listeners, listen on the advertised ports, as both images do."""
    advertised = of_variables.get("advertised.listeners")
    if advertised is not None and not {"listeners"} & (of_variables.keys() | of_file.keys()):
        listeners = re.sub(r"://[^,]*:(?=\d)", "://0.0.0.0:", str(advertised))
        of_variables["listeners"] = listeners
