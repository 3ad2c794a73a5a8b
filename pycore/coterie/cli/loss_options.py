"""The options of the findings about skipped records, stalls and open transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from coterie.cli.params import DURATION
from coterie.insight.questions.audit import Parameters

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def loss_options(command: Decorated) -> Decorated:
    """``--skip-by``, ``--skip-rate``, ``--stall-for`` and ``--open-for``."""
    for option in (
        click.option(
            "--open-for",
            "open_ms",
            type=DURATION,
            default="10s",
            show_default=True,
            help="Report offsets that wait for the end of a transaction at least so long.",
        ),
        click.option(
            "--stall-for",
            "stall_ms",
            type=DURATION,
            default="1m",
            show_default=True,
            help="Report a partition that stands still so long while others of its topic move.",
        ),
        click.option(
            "--skip-rate",
            type=click.IntRange(min=1),
            default=Parameters.skip_rate,
            show_default=True,
            help="Records a second: a step forward that nothing but its size shows to be a skip "
            "is at least so fast.",
        ),
        click.option(
            "--skip-by",
            type=click.IntRange(min=1),
            default=Parameters.skip_by,
            show_default=True,
            help="Report a commit that passes over at least so many records.",
        ),
    ):
        command = option(command)
    return command
