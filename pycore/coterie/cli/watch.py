"""``coterie watch``: a monitor with a memory, over a cluster or folders that grow."""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.base.user_files import FileTooLarge, check_private, read_limited
from coterie.cli.failures import say
from coterie.cli.logs import check_source
from coterie.cli.params import DURATION, FOLDER, bootstrap_options
from coterie.errors import ArgumentError
from coterie.log.folders import find_segments

if TYPE_CHECKING:
    from ssl import SSLContext

    from coterie.server.options import Place

SHIPPED = ("dashboard", "alerts")
DAY_MS = 86_400_000
LOGIN_BYTES_MAX = 4096


@click.command("watch")
@click.argument("logs", metavar="LOG...", nargs=-1, type=click.Path())
@bootstrap_options(required=False)
@click.option(
    "--data",
    type=FOLDER,
    metavar="DIR",
    help="A folder for what must survive a restart: totals, and the copy of a cluster's log.",
)
@click.option(
    "--sample-end-offsets",
    "sample_s",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="With --bootstrap-server: how often to sample the end offsets of topics, for the lag.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:9308",
    show_default=True,
    help="Where to serve HTTP. Port 0 chooses one.",
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.05, max=86_400),
    default=10.0,
    show_default=True,
    help="How often to look for new records.",
)
@click.option(
    "--keep",
    "keep_ms",
    type=DURATION,
    default=7 * DAY_MS,
    show_default="7d",
    help="How much time pages and questions cover, up to the newest record.",
)
@click.option("--tls-cert", type=click.Path(dir_okay=False), metavar="F", help="A certificate.")
@click.option("--tls-key", type=click.Path(dir_okay=False), metavar="F", help="Its key.")
@click.option(
    "--basic-auth",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="A file with one line, USER:PASSWORD, that only you may read. Needs --tls-cert.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Listen on an address that other machines reach, without a password.",
)
@click.option(
    "--print",
    "shipped",
    type=click.Choice(SHIPPED),
    help="Print a dashboard for Grafana or alert rules for Prometheus, and end.",
)
def command(
    logs: tuple[str, ...],
    servers: str | None,
    client_file: str | None,
    data: str | None,
    sample_s: int | None,
    listen: str,
    interval: float,
    keep_ms: int,
    tls_cert: str | None,
    tls_key: str | None,
    basic_auth: str | None,
    insecure: bool,
    shipped: str | None,
) -> None:
    """Follow a log that grows, and serve what is known of it over HTTP.

    /metrics is for Prometheus, / and /groups/GROUP are the page of `coterie report`, /api/ has
    questions as JSON, /healthz says how far it is behind. When it has read the log it prints
    `ready`. It ends with status 0 on SIGINT, SIGTERM and SIGHUP. With --bootstrap-server it follows
    a cluster, by a copy in DIR/copy, or in a temporary folder.
    """
    if shipped is not None:
        sys.stdout.write(shipped_text(shipped))
        return
    check_source(logs, servers, {"--command-config": client_file, "--sample-end-offsets": sample_s})
    if not math.isfinite(interval):
        raise click.UsageError(f"--interval {interval} is no number of seconds")
    try:
        place = place_of_listen(listen, with_login=basic_auth is not None, insecure=insecure)
        tls = tls_of(tls_cert, tls_key)
        if basic_auth is not None and tls is None:
            raise ArgumentError("--basic-auth needs --tls-cert: a password must not be readable")
        login = None if basic_auth is None else login_of(Path(basic_auth))
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    from coterie.live.watch_running import Options, watch
    from coterie.live.watcher import Watcher

    folder = None if data is None else Path(data)
    options = Options(place, tls, login, interval, keep_ms)
    if servers is not None:
        from coterie.cli.clusters import need_client_library  # with asyncio, slow to import

        need_client_library()
        from coterie.cli.watched_cluster import following, list_copy

        with copy_folder(folder) as copied:
            watcher = Watcher(partial(list_copy, copied), folder, say_line)
            watch(
                watcher,
                options,
                following(servers, client_file, copied, sample_s, keep_ms, watcher),
            )
        return
    list_log = partial(find_segments, logs)
    list_log()  # a wrong path is an error now, later it is waited for
    for log in logs:
        if folder is not None and folder.resolve().is_relative_to(Path(log).resolve()):
            raise click.UsageError(f"--data {data} is inside {log}; choose a folder outside")
    watch(Watcher(list_log, folder, say_line), options)


def say_line(line: str) -> None:
    """Print a line for the operator."""
    say(f"coterie: {line}")


@contextlib.contextmanager
def copy_folder(data: Path | None) -> Iterator[Path]:
    """Yield the folder for a cluster's copy: in ``data``, or one that is removed at the end."""
    if data is not None:
        yield data / "copy"
        return
    with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
        yield Path(folder)


def shipped_text(name: str) -> str:
    """Return a dashboard or alert rules."""
    if name == "alerts":
        from coterie.live.alert_rules import alert_rules

        return alert_rules()
    return (files("coterie.live") / "shipped/dashboard.json").read_text(encoding="utf-8")


def place_of_listen(text: str, *, with_login: bool, insecure: bool) -> Place:
    """Return the address to listen on; refuse one that is open to other machines."""
    from coterie.server.options import PLAINTEXT, place_of

    if "://" in text:
        raise ArgumentError(f"--listen {text}: name HOST:PORT; --tls-cert and --tls-key give TLS")
    place = place_of(text, protocols=PLAINTEXT)
    if not (place.is_loopback or with_login or insecure):
        raise ArgumentError(
            f"--listen {text} is not a loopback address: it needs --basic-auth with --tls-cert, "
            "or --insecure"
        )
    return place


def tls_of(cert: str | None, key: str | None) -> SSLContext | None:
    """Return the context of TLS; None: without."""
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ArgumentError("--tls-cert and --tls-key go together")
    from coterie.server.net.tls import server_context

    return server_context(cert, key)


def login_of(file: Path) -> str:
    """Return the line USER:PASSWORD of a file that only its owner may read."""
    try:
        with open(file, "rb", buffering=0) as opened:
            check_private(opened, f"--basic-auth {file}", file)
            text = read_limited(opened, LOGIN_BYTES_MAX).decode("utf-8")
    except OSError as error:
        raise ArgumentError(f"--basic-auth {file}: cannot be read: {error.strerror}") from None
    except (FileTooLarge, UnicodeDecodeError) as error:
        raise ArgumentError(f"--basic-auth {file}: {error}") from None
    line, *others = text.splitlines() or [""]
    if others or not all(line.partition(":")):
        raise ArgumentError(f"--basic-auth {file}: it must have one line, USER:PASSWORD")
    return line
