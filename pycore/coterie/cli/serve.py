"""``coterie serve``: the coordinator for clients of any language."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.base.atomic_file import OutputError, check_file
from coterie.errors import ArgumentError, ConfigError
from coterie.server.releases import DEFAULT_RELEASE, RELEASES

if TYPE_CHECKING:
    from coterie.server.config import Settings
    from coterie.server.options import Options, Place, TopicOptions

SETTING = "KEY=VALUE"
DEFAULT_LISTEN = "127.0.0.1:9092"


@click.command(name="serve")
@click.option(
    "--listen",
    "listens",
    metavar="[PROTOCOL://]HOST:PORT",
    multiple=True,
    help="Where to listen; repeatable. PROTOCOL: plaintext (default), ssl, "
    "sasl_plaintext, sasl_ssl, or a name of listener.security.protocol.map. "
    "Port 0 chooses one. Default: the setting listeners, else 127.0.0.1:9092.",
)
@click.option(
    "--advertise",
    "advertised",
    metavar="HOST:PORT",
    multiple=True,
    help="The address that clients get in its place; once for each --listen. Default: the "
    "setting advertised.listeners.",
)
@click.option(
    "--kafka",
    type=click.Choice(list(RELEASES)),
    default=DEFAULT_RELEASE.name,
    show_default=True,
    help="The release whose broker is followed: its API versions, defaults and errors. Consumer "
    "groups (KIP-848) need 4.1 or later.",
)
@click.option("--data", metavar="DIR", help="A log on disk; not served yet.")
@click.option(
    "--brokers",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="How many brokers; above 1 not served yet.",
)
@click.option(
    "--topic",
    "topics",
    metavar="NAME[:PARTITIONS][,KEY=VALUE...]",
    multiple=True,
    help="A topic that exists from the start, with settings of its own; repeatable.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Settings from a Java properties file, as server.properties.",
)
@click.option(
    "--environment",
    is_flag=True,
    help="Settings from variables KAFKA_..., as Kafka's container images read them.",
)
@click.option(
    "--set",
    "settings",
    metavar=SETTING,
    multiple=True,
    help="A setting by Kafka's name; repeatable. --set overrides --environment, which "
    "overrides --config.",
)
@click.option(
    "--sync",
    type=click.Choice(["commit", "interval", "never"]),
    help="How --data is written; not served yet.",
)
@click.option(
    "--tls-cert",
    type=click.Path(dir_okay=False),
    metavar="F",
    help="The certificate of listeners with TLS.",
)
@click.option("--tls-key", type=click.Path(dir_okay=False), metavar="F", help="Its key.")
@click.option(
    "--tls-client-ca",
    type=click.Path(dir_okay=False),
    metavar="F",
    help="The authority that signs the certificates of clients; each client needs one.",
)
@click.option(
    "--sasl-users",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The users of SASL: a TOML file that only you may read.",
)
@click.option(
    "--make-credential",
    metavar="USER",
    help="Print tables for --sasl-users from a password, and end.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen on an address that other machines reach, without authentication.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the requests to the coordinator as a trace, at the end.",
)
@click.option("--overwrite", is_flag=True, help="Let --trace replace an existing file.")
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus at this address."
)
@click.option(
    "--clock",
    type=click.Choice(["wall", "virtual", "auto"]),
    default="wall",
    show_default=True,
    help="The time of groups, transactions and retention: virtual, it stands until "
    "--control advances it; auto, it also jumps when clients only wait for it.",
)
@click.option(
    "--control",
    metavar="HOST:PORT",
    help="Where tests advance the clock and inject faults, by HTTP.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Draw ids from N: the same requests get the same ids."
)
def command(**options: Any) -> None:
    """Serve Kafka's protocol: a Kafka for tests, its data in memory.

    When it takes requests it prints `listening PROTOCOL HOST:PORT` for each listener, then `ready`.
    """
    if options["make_credential"] is not None:
        from coterie.cli.credential import make_credential

        make_credential(options["make_credential"])
        return
    gc.disable()  # imports make no garbage; `serve` lets the collector run once it is ready
    try:
        _serve(options)
    finally:
        gc.enable()


def _serve(command_line: dict[str, Any]) -> None:
    try:
        options = options_of(command_line)
        trace = _trace(command_line["trace"], overwrite=command_line["overwrite"])
    except (ArgumentError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    from coterie.server.serving import serve

    serve(
        options,
        trace=trace,
        overwrite=command_line["overwrite"],
        insecure=command_line["insecure"],
    )


def options_of(command_line: dict[str, Any]) -> Options:
    """Return the checked options of the server; ArgumentError if they contradict each other."""
    from coterie.server.config import server_config
    from coterie.server.config_sources import merged_settings
    from coterie.server.options import Options
    from coterie.server.releases import release_of
    from coterie.server.topics_at_start import refuse_wrong_topics

    if command_line["data"] is not None or command_line["sync"] is not None:
        raise ArgumentError("--data and --sync: a log on disk is not served yet; leave them out")
    if command_line["brokers"] != 1:
        raise ArgumentError("--brokers: several brokers are not served yet; leave it out")
    environment = os.environ if command_line["environment"] else None
    config = merged_settings(command_line["config"], environment, command_line["settings"])
    release = release_of(command_line["kafka"])
    settings = server_config(config, release)
    topics = _topics(command_line["topics"])
    refuse_wrong_topics(topics, settings, release)
    places, advertised = _listeners(command_line, settings)
    control = _place_beside("control", command_line)
    if command_line["clock"] == "virtual" and control is None:
        raise ArgumentError("--clock virtual needs --control, by which the clock is advanced")
    return Options(
        config=config,
        release=release,
        places=places,
        advertised=advertised,
        topics=topics,
        virtual=command_line["clock"] != "wall",
        auto=command_line["clock"] == "auto",
        seed=command_line["seed"],
        users=_users(command_line["sasl_users"], places),
        tls=_tls(command_line, places),
        control=control,
        metrics=_place_beside("metrics", command_line),
    )


def _listeners(
    command_line: dict[str, Any], settings: Settings
) -> tuple[tuple[Place, ...], tuple[Place | None, ...]]:
    """Return the addresses to listen on, and the advertised address of each."""
    from coterie.server.listeners import chosen_listeners
    from coterie.server.options import refuse_open, refuse_unroutable

    places, advertised = chosen_listeners(
        settings, command_line["listens"], command_line["advertised"], default=DEFAULT_LISTEN
    )
    for place in places:
        refuse_open(
            place,
            client_certificates=command_line["tls_client_ca"] is not None,
            insecure=command_line["insecure"],
        )
    remedy = "give --advertise HOST:PORT, by which they reach this machine"
    refuse_unroutable(places, advertised, remedy)
    return places, advertised


def _topics(texts: Sequence[str]) -> dict[str, TopicOptions]:
    from coterie.server.options import topic_of

    topics: dict[str, TopicOptions] = {}
    for name, options in map(topic_of, texts):
        if name in topics:
            raise ArgumentError(f"--topic {name} is given twice; leave one out")
        topics[name] = options
    return topics


def _trace(text: str | None, *, overwrite: bool) -> Path | None:
    """Check the output file before the start: raise if it could not be written at the end."""
    if text is None:
        return None
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"--trace {text}: {error.filename}: {error.strerror}") from None
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"--trace {text}: no file can be written there; name another")
    try:
        check_file(path, overwrite=overwrite, option="--trace")
    except OutputError as error:
        raise ArgumentError(str(error)) from None
    return path


def _place_beside(name: str, command_line: dict[str, Any]) -> Place | None:
    from coterie.server.options import PLAINTEXT, place_of

    text = command_line[name]
    if text is None:
        return None
    place = place_of(text, protocols=PLAINTEXT)
    if name == "control" and not place.is_loopback:
        raise ArgumentError(f"--control {text} is not a loopback address; use 127.0.0.1")
    if not place.is_loopback and not command_line["insecure"]:
        raise ArgumentError(f"--metrics {text} is not a loopback address: it needs --insecure")
    return place


def _users(file: str | None, places: tuple[Place, ...]) -> Any:
    with_sasl = [place for place in places if place.protocol.startswith("sasl_")]
    if file is None:
        if with_sasl:
            raise ArgumentError(f"{with_sasl[0].label}://{with_sasl[0].address} needs --sasl-users")
        return None
    from coterie.server.services.users import read_users

    return read_users(Path(file))


def _tls(command_line: dict[str, Any], places: tuple[Place, ...]) -> Any:
    cert, key = command_line["tls_cert"], command_line["tls_key"]
    if (cert is None) != (key is None):
        raise ArgumentError("--tls-cert and --tls-key go together")
    with_tls = [place for place in places if place.protocol.endswith("ssl")]
    if cert is None:
        if with_tls:
            raise ArgumentError(f"{with_tls[0].label}://{with_tls[0].address} needs --tls-cert")
        return None
    from coterie.server.net.tls import server_context

    return server_context(cert, key, command_line["tls_client_ca"])
