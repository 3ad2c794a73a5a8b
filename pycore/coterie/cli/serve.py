"""``coterie serve``: the coordinator for clients of any language."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from coterie.server.options import Options, Place

SETTING = "KEY=VALUE"


@click.command(name="serve")
@click.option(
    "--listen",
    "listens",
    metavar="[PROTOCOL://]HOST:PORT",
    multiple=True,
    help="Where to listen; repeatable. PROTOCOL: plaintext (default), ssl, "
    "sasl_plaintext, sasl_ssl. Port 0 chooses one. Default: 127.0.0.1:9092.",
)
@click.option(
    "--advertise",
    "advertised",
    metavar="HOST:PORT",
    multiple=True,
    help="What clients are told instead; once for each --listen.",
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
    metavar="NAME[:PARTITIONS]",
    multiple=True,
    help="A topic that is there from the start; repeatable.",
)
@click.option(
    "--set",
    "settings",
    metavar=SETTING,
    multiple=True,
    help="A setting by Kafka's name; repeatable.",
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
    help="Who signs the certificates that clients must have.",
)
@click.option(
    "--sasl-users",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Who may come in by SASL: a TOML file that only you may read.",
)
@click.option(
    "--make-credential",
    metavar="USER",
    help="Print tables for --sasl-users from a password, and end.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen on an address that others reach, though nobody has to say who they are.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write what the coordinator was asked as a trace, at the end.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Where to tell Prometheus about it.")
@click.option(
    "--clock",
    type=click.Choice(["wall", "virtual"]),
    default="wall",
    show_default=True,
    help="The time of groups, transactions and retention: virtual, it stands until "
    "--control advances it.",
)
@click.option(
    "--control",
    metavar="HOST:PORT",
    help="Where tests advance the clock and ask for faults, by HTTP.",
)
@click.option("--seed", type=int, metavar="N", help="Draw ids from N: they repeat.")
def command(**given: Any) -> None:
    """Serve Kafka's protocol: a Kafka for tests, its data in memory.

    When it takes requests it prints `listening PROTOCOL HOST:PORT` for each listener, then `ready`.
    """
    if given["make_credential"] is not None:
        from coterie.cli.credential import make_credential

        make_credential(given["make_credential"])
        return
    gc.disable()  # what is imported is no garbage; `serve` lets the collector run once it is ready
    try:
        _serve(given)
    finally:
        gc.enable()


def _serve(given: dict[str, Any]) -> None:
    try:
        options, trace = options_of(given), _trace(given["trace"])
    except (ArgumentError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    from coterie.server.serving import serve

    serve(options, trace=trace, insecure=given["insecure"])


def options_of(given: dict[str, Any]) -> Options:
    """Return what the options ask for; ArgumentError where they do not go together."""
    from coterie.server.config import read_setting, server_config
    from coterie.server.options import (
        Options,
        place_of,
        refuse_open,
        refuse_unroutable,
        topic_of,
    )
    from coterie.server.services.data.topics import refuse_other_counts

    if given["data"] is not None or given["sync"] is not None:
        raise ArgumentError("--data and --sync: a log on disk is not served yet; leave them out")
    if given["brokers"] != 1:
        raise ArgumentError("--brokers: several brokers are not served yet; leave it out")
    config = dict(map(read_setting, given["settings"]))
    topics = dict(map(topic_of, given["topics"]))
    refuse_other_counts(topics, server_config(config))
    places = tuple(map(place_of, given["listens"] or ("127.0.0.1:9092",)))
    certified = given["tls_client_ca"] is not None
    for place in places:
        refuse_open(place, client_certificates=certified, insecure=given["insecure"])
    advertised = tuple(place_of(each, protocols=("plaintext",)) for each in given["advertised"])
    if advertised and len(advertised) != len(places):
        raise ArgumentError("--advertise: give one for each --listen")
    remedy = "give --advertise HOST:PORT, by which they reach this machine"
    refuse_unroutable(places, advertised, remedy)
    beside = {name: _place_beside(name, given) for name in ("control", "metrics")}
    if given["clock"] == "virtual" and beside["control"] is None:
        raise ArgumentError("--clock virtual needs --control, by which the clock is advanced")
    return Options(
        config=config,
        places=places,
        advertised=advertised,
        topics=topics,
        virtual=given["clock"] == "virtual",
        seed=given["seed"],
        users=_users(given["sasl_users"], places),
        tls=_tls(given, places),
        **beside,
    )


def _trace(text: str | None) -> Path | None:
    """Refuse, before anything is served, a file that cannot be written at the end."""
    if text is None:
        return None
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"--trace {text}: {error.filename}: {error.strerror}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"--trace {text}: no file can be written there; name another")
    return path


def _place_beside(name: str, given: dict[str, Any]) -> Place | None:
    from coterie.server.options import place_of

    text = given[name]
    if text is None:
        return None
    place = place_of(text, protocols=("plaintext",))
    if name == "control" and not place.is_loopback:
        raise ArgumentError(f"--control {text} is not a loopback address; use 127.0.0.1")
    if not place.is_loopback and not given["insecure"]:
        raise ArgumentError(f"--metrics {text} is not a loopback address: it needs --insecure")
    return place


def _users(file: str | None, places: tuple[Place, ...]) -> Any:
    asked = [place for place in places if place.protocol.startswith("sasl_")]
    if file is None:
        if asked:
            raise ArgumentError(f"{asked[0].protocol}://{asked[0].told()} needs --sasl-users")
        return None
    from coterie.server.services import sasl

    return sasl.read_users(Path(file))


def _tls(given: dict[str, Any], places: tuple[Place, ...]) -> Any:
    cert, key = given["tls_cert"], given["tls_key"]
    if (cert is None) != (key is None):
        raise ArgumentError("--tls-cert and --tls-key go together")
    asked = [place for place in places if place.protocol.endswith("ssl")]
    if cert is None:
        if asked:
            raise ArgumentError(f"{asked[0].protocol}://{asked[0].told()} needs --tls-cert")
        return None
    from coterie.server.net.tls import server_context

    return server_context(cert, key, given["tls_client_ca"])
