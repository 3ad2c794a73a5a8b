"""Options that several commands share, and their types."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.base.times import format_duration, format_time, parse_duration, parse_time
from coterie.cli.failures import say
from coterie.state.replay_engine import AUTO, ENGINE_NAMES, Where, is_registered

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


if TYPE_CHECKING:
    IntType = click.ParamType[int]
    PairType = click.ParamType[tuple[str, str]]
else:
    IntType = PairType = click.ParamType  # not generic before click 8.3

SECONDS_NOW = range(1_000_000_000, 10_000_000_000)  # of 2001 to 2286; as ms, of 1970
SPARK_KEY = re.compile(r"spark\.[^\s=]+")  # Spark silently ignores other names


class Time(IntType):
    """TIME: ISO 8601 with zone, or epoch milliseconds; an int of epoch ms."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as wrong usage."""
        if isinstance(value, int):
            return value
        try:
            at_ms = parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if value.strip().isdigit() and at_ms in SECONDS_NOW:
            option = param.opts[0] if param else self.name
            time, meant = format_time(at_ms), format_time(at_ms * 1000)
            say(f"coterie: {option} {at_ms} is {time}; if it is seconds, add 000: {meant}")
        return at_ms


class Duration(IntType):
    """DURATION: ``7d``, ``1h30m``, ``250ms``; an int of ms."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as wrong usage."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Setting(PairType):
    """KEY=VALUE, a setting of Spark; a pair of strings."""

    name = "KEY=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first "=", or fail as wrong usage."""
        if isinstance(value, tuple):
            return value
        key, equals, setting = value.partition("=")
        if not equals or not SPARK_KEY.fullmatch(key.strip()):
            self.fail(f"{value!r} is not KEY=VALUE, as spark.executor.memory=4g", param, ctx)
        return key.strip(), setting.strip()


class Folder(click.Path):
    """DIR: a path that is not empty; an unset variable must not mean the current folder."""

    name = "DIR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail as wrong usage."""
        if value == "":
            self.fail("an empty text is no folder; name one", param, ctx)
        return super().convert(value, param, ctx)


TIME = Time()
FOLDER = Folder()
SETTING = Setting()
DURATION = Duration()


class EngineName(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """The name of an engine: of this project, or registered as an entry point."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Accept the name of an engine, or fail as wrong usage."""
        if value in self.choices or not is_registered(value):
            return super().convert(value, param, ctx)
        return value


def engine_options(command: Decorated) -> Decorated:
    """``--engine``, ``--master`` and ``--conf``."""
    command = click.option(
        "--conf",
        type=SETTING,
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting of Spark's, as spark.executor.memory=4g; repeatable.",
    )(command)
    command = click.option("--master", metavar="URL", help="Spark's master; by default local[*].")(
        command
    )
    return click.option(
        "--engine",
        type=EngineName(ENGINE_NAMES),
        default=AUTO,
        show_default=True,
        help="Spark, or this process; both give the same rows. auto: Spark if --master is given, "
        "or if the log is larger than 2 GiB and pyspark is installed.",
    )(command)


def check_where(where: Where) -> None:
    """Raise a usage error for Spark's options with another engine."""
    if where.engine != "spark":
        for option, is_set in (("--master", where.master is not None), ("--conf", where.conf)):
            if is_set:
                raise click.UsageError(f"{option} is for --engine spark")


def bootstrap_options(*, required: bool) -> Callable[[Decorated], Decorated]:
    """``--bootstrap-server`` and ``--command-config``, as ``servers`` and ``client_file``."""

    def add(command: Decorated) -> Decorated:
        command = click.option(
            "--command-config",
            "client_file",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Kafka's client properties, as for Kafka's own tools.",
        )(command)
        return click.option(
            "--bootstrap-server",
            "servers",
            metavar="HOST:PORT[,...]",
            required=required,
            help="Brokers of the cluster; any that answers names the others.",
        )(command)

    return add


def group_option(command: Decorated) -> Decorated:
    """``--group G``, repeatable, as ``groups``: a tuple of ids and patterns.

    ``coterie.cli.group_names`` resolves the patterns.
    """
    return click.option(
        "--group",
        "groups",
        metavar="G",
        multiple=True,
        help="Only this group; repeatable. G may be a pattern, as 'pay*'.",
    )(command)


def group_exclude_option(command: Decorated) -> Decorated:
    """``--group-exclude PATTERN``, repeatable, as ``excluded``: a tuple of ids and patterns."""
    return click.option(
        "--group-exclude",
        "excluded",
        metavar="PATTERN",
        multiple=True,
        help="Without the groups that PATTERN matches, as 'test*'; repeatable.",
    )(command)


def parameter_options(question: type[Any]) -> Callable[[Decorated], Decorated]:
    """Add the options of a question's ``Parameters`` (``coterie.insight.parameters``)."""

    def add(command: Decorated) -> Decorated:
        for one in reversed(fields(question)):
            if one.metadata:
                is_duration, default = one.name.endswith("_ms"), one.default
                if is_duration and default is not None:
                    default = format_duration(default)
                command = click.option(
                    one.metadata["option"] or f"--{one.name.replace('_', '-')}",
                    one.name,
                    type=DURATION if is_duration else click.IntRange(min=one.metadata["least"]),
                    default=default,
                    show_default=True,
                    help=one.metadata["text"],
                )(command)
        return command

    return add


def at_option(command: Decorated) -> Decorated:
    """``--at TIME`` as ``at_ms``: int of epoch ms, or None."""
    return click.option(
        "--at",
        "at_ms",
        type=TIME,
        help="State as of TIME (2026-01-31T14:05:00Z or epoch ms).",
    )(command)


def retention_option(text: str, default_ms: int) -> Callable[[Decorated], Decorated]:
    """``--retention DURATION`` as ``retention_ms``: int of ms."""
    return click.option(
        "--retention",
        "retention_ms",
        type=DURATION,
        default=format_duration(default_ms),
        show_default=True,
        help=f"The broker's offsets.retention.minutes: {text}.",
    )


def since_option(command: Decorated) -> Decorated:
    """``--since TIME`` as ``since_ms``: int of epoch ms, or None."""
    return click.option(
        "--since",
        "since_ms",
        type=TIME,
        help="Tell only what was so or happened since TIME; what was before is read all the same.",
    )(command)


def until_option(command: Decorated) -> Decorated:
    """``--until TIME`` as ``until_ms``: int of epoch ms, or None."""
    return click.option(
        "--until", "until_ms", type=TIME, help="Leave out records that are later than TIME."
    )(command)


def end_of(at_ms: int | None, since_ms: int | None, until_ms: int | None) -> int | None:
    """Return the time of ``--at`` or ``--until``, after which records do not count; None: all.

    Raises
    ------
    click.UsageError
        Both are given, or the time is before ``--since``.
    """
    if at_ms is not None and until_ms is not None:
        raise click.UsageError("--at and --until say the same; give one of them")
    end_ms = until_ms if at_ms is None else at_ms
    if end_ms is not None and since_ms is not None and end_ms < since_ms:
        raise click.UsageError("--since is later than --until")
    return end_ms


def log_until_option(command: Decorated) -> Decorated:
    """``--log-until TIME`` as ``log_until_ms``: int of epoch ms, or None."""
    return click.option(
        "--log-until",
        "log_until_ms",
        type=TIME,
        help="When the copy of the log was made; by default the time of its newest record. What "
        "was committed later is not in it.",
    )(command)


def on_fault_option(command: Decorated) -> Decorated:
    """``--on-fault`` as ``on_fault``."""
    return click.option(
        "--on-fault",
        type=click.Choice(["skip", "recover", "load", "stop"]),
        default="skip",
        show_default=True,
        help="At a corrupt place: leave it out (skip), do as Kafka after recovery (recover) or as "
        "Kafka's loader after a clean shutdown (load), or fail at the first (stop).",
    )(command)
