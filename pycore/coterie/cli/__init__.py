"""The command line ``coterie``: one module per command, imported when the command is used.

A module of a command has the command's name, and defines it as ``command``. Commands raise
exceptions; only ``main`` prints the error line and exits. Exit status: 0 done, 1 failed or a
problem was found, 2 wrong usage, 130 interrupted (SIGINT), 143 terminated (SIGTERM, SIGHUP).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import click

from coterie.cli.failures import Terminated, status_of
from coterie.cli.standard_streams import open_closed_streams

RESEND_AFTER_S = 0.05
COMMANDS = {  # name -> summary, so that `coterie --help` imports no command
    "fetch": "The topic from a running cluster, byte for byte.",
    "replay": "A log as tables: groups, members, offsets, generations, faults.",
    "groups": "kafka-consumer-groups' own views, from a log.",
    "explain": "The life of a group: each generation with its cause.",
    "undo": "Where a group was: the file that puts its offsets back.",
    "expire": "Which offsets are gone or go next, when, and by which rule.",
    "growth": "Who fills the topic, and what compaction would free.",
    "audit": "What looks wrong, with the record that shows it; exit 1 if any.",
    "lag": "Lag by partition and over time, given end offsets.",
    "metrics": "Offsets, commits, members as Prometheus text.",
    "watch": "Follow a log: metrics with totals, pages, questions over HTTP.",
    "mcp": "The questions as tools for an agent (Model Context Protocol).",
    "report": "One self-contained HTML page about the groups.",
    "compare": "Copies of several brokers; exit 1 if they have diverged.",
    "records": "The records of a log, decoded, one JSON object per line.",
    "verify": "Every fault of a log, one JSON object per line; exit 1 if any.",
    "serve": "Serve Kafka's protocol: a Kafka for tests of any language.",
    "rehearse": "A group's history under another protocol, release or setting.",
    "designs": "Scenarios under Kafka's designs of group coordination.",
    "trace": "Run, compare and make traces of a group coordinator.",
}


class Commands(click.Group):
    """The group ``coterie``: imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"coterie.cli.{cmd_name}").command
        command.short_help = COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from ``COMMANDS``."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    name="coterie",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="coterie", prog_name="coterie")
def coterie() -> None:
    """Kafka's consumer-group coordinator: replay __consumer_offsets, and look into it.

    LOG is a folder that holds __consumer_offsets-N folders, one such folder, or a segment file;
    segments may be compressed as files (.zst, .gz). TIME is ISO 8601 with zone, or epoch
    milliseconds. Exit status: 0 done, 1 failed or a problem was found, 2 wrong usage.
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line ``args`` (None: ``sys.argv``) and return the exit status."""
    arguments = list(sys.argv[1:] if args is None else args)
    try:
        with coterie.make_context("coterie", arguments) as context:
            coterie.invoke(context)
        sys.stdout.flush()
    except BaseException as error:
        return status_of(error)
    return 0


def resend_signal(failure: sys.UnraisableHookArgs) -> None:
    """Resend a signal whose exception was lost, as in a finalizer; report other exceptions."""
    number = {Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}.get(failure.exc_type)
    if number is None:
        sys.__unraisablehook__(failure)
    else:
        threading.Timer(RESEND_AFTER_S, os.kill, (os.getpid(), number)).start()


def main() -> None:
    """Entry point of the process."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    open_closed_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads would spin
    sys.unraisablehook = resend_signal
    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup leaves it
        signal.signal(signal.SIGHUP, end)
    sys.exit(run())
