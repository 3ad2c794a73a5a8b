"""What several commands take alike: LOG, --group, --at and --on-fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.replay.engine import ENGINE_NAMES, is_registered
from coterie.times import parse_duration, parse_time

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


if TYPE_CHECKING:
    IntType = click.ParamType[int]
else:
    IntType = click.ParamType  # not generic before click 8.3


class Time(IntType):
    """TIME: ISO 8601 with zone, or epoch milliseconds; an int of epoch ms."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as wrong usage."""
        if isinstance(value, int):
            return value
        try:
            return parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


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


TIME = Time()
DURATION = Duration()


class EngineName(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """The name of an engine: of this project's, or of one that is registered as an entry point."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a name of which there is an engine, or fail as wrong usage."""
        if value in self.choices or not is_registered(value):
            return super().convert(value, param, ctx)
        return value


def engine_options(default: str, text: str) -> Callable[[Decorated], Decorated]:
    """``--engine`` and ``--master``."""

    def add(command: Decorated) -> Decorated:
        command = click.option(
            "--master", metavar="URL", help="Spark's master; by default local[*]."
        )(command)
        return click.option(
            "--engine",
            type=EngineName(ENGINE_NAMES),
            default=default,
            show_default=True,
            help=text,
        )(command)

    return add


def logs_argument(command: Decorated) -> Decorated:
    """LOG..., as ``logs``: a tuple of paths as given, each to be found by ``find_segments``."""
    return click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path())(
        command
    )


def group_option(command: Decorated) -> Decorated:
    """``--group G``, repeatable, as ``groups``: a tuple of ids."""
    return click.option(
        "--group", "groups", metavar="G", multiple=True, help="Only this group; repeatable."
    )(command)


def at_option(command: Decorated) -> Decorated:
    """``--at TIME`` as ``at_ms``: int of epoch ms, or None."""
    return click.option(
        "--at",
        "at_ms",
        type=TIME,
        help="State as of TIME, by the records' own timestamps (2026-01-31T14:05:00Z or epoch ms).",
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
