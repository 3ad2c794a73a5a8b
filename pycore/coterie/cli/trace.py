"""``coterie trace``: run traces, compare outputs, import a broker's request log, ask what if."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from coterie.base.terminal import print_text
from coterie.base.user_files import open_lines
from coterie.cli.failures import FULL, say
from coterie.coordinator.config import coordinator_config, parse_setting
from coterie.coordinator.trace_files import found_traces, stem
from coterie.errors import ConfigError, CoterieError

EXPECTED_ENDS = (".expected.jsonl", ".expected.jsonl.gz")
T = TypeVar("T")
ACTUAL_ENDS = tuple(
    s + z for s in (".actual.jsonl", ".expected.jsonl", ".jsonl") for z in ("", ".gz")
)


@click.group("trace", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run, compare and make traces of a group coordinator.

    A trace (NAME.trace.jsonl, also .gz) has requests to a coordinator, in order, with virtual time;
    its output is what the coordinator does.
    """


def unreadable(path: Path, error: Exception) -> str:
    """Return the line about a file that cannot be read, or about its output, which has a name."""
    if isinstance(error, OSError) and error.filename:
        path = error.filename
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, RecursionError):
        what = "nested too deeply"
    return f"{path}: {what}"


READ_ERRORS = (OSError, ValueError, RecursionError, CoterieError)


def write_lines(path: Path, lines: Any, *, overwrite: bool, inputs: Iterable[str]) -> None:
    """Write JSON lines to a new file, atomically; create its folder."""
    from coterie.cli.output_file import whole_file
    from coterie.cli.output_folder import room_for

    with (
        room_for(path),
        whole_file(str(path), overwrite=overwrite, inputs=inputs) as part,
        part.open("w", encoding="utf-8") as out,
    ):
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")


@command.command("run")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--out", required=True, metavar="DIR", help="Folder for NAME.actual.jsonl.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting in place of the traces' own.",
)
@overwrite_option
def run_command(
    traces: tuple[str, ...], out: str, settings: tuple[str, ...], overwrite: bool
) -> None:
    """Run traces: files, or folders that are searched through.

    One output a trace, NAME.actual.jsonl; subfolders are kept. Exit 1 if any trace is wrong.
    """
    from coterie.cli.output_file import check_files_in

    chosen = config_of(settings)
    source: dict[Path, Path] = {}
    for path, place in found_traces(traces):
        target = Path(out) / place.with_name(place.name + ".actual.jsonl")
        if target in source:
            raise click.UsageError(f"{path} and {source[target]} would both be written to {target}")
        source[target] = path
    inputs = [str(path) for path in source.values()]
    check_files_in(out, source, overwrite=overwrite, inputs=inputs)
    failed = sum(
        not run_one(path, target, chosen, overwrite=overwrite, inputs=inputs)
        for target, path in source.items()
    )
    say(f"{len(source) - failed} run, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def run_one(
    path: Path, target: Path, settings: dict[str, Any], *, overwrite: bool, inputs: Iterable[str]
) -> bool:
    """Run a trace; print an error and return False if it fails."""
    from coterie.coordinator.trace import run_trace

    try:
        with open_lines(path) as lines:
            write_lines(target, run_trace(lines, settings), overwrite=overwrite, inputs=inputs)
    except READ_ERRORS as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise  # no trace is at fault, and the next ones would fail as well
        say(f"coterie: {unreadable(path, error)}")
        return False
    except Exception as error:  # a fault of coterie: the other traces are run
        say(f"coterie: {path}: this trace cannot be run: {type(error).__name__}: {error}")
        return False
    return True


def compared(expected: Path, actual: Path) -> Iterator[tuple[str, Path, Path | None]]:
    """Yield (name, expected file, actual file or None) of each pair."""
    if not expected.is_dir():
        yield stem(expected, EXPECTED_ENDS), expected, actual
        return
    for path in sorted(expected.rglob("*")):
        if path.name.endswith(EXPECTED_ENDS):
            name = stem(path, EXPECTED_ENDS)
            folder = actual / path.parent.relative_to(expected)
            places = (folder / (name + end) for end in ACTUAL_ENDS)
            yield name, path, next((p for p in places if p.exists()), None)


@command.command("diff")
@click.argument("expected", type=click.Path(exists=True, path_type=Path))
@click.argument("actual", type=click.Path(exists=True, path_type=Path))
@click.option("--all", "show_all", is_flag=True, help="Every difference, not each trace's first.")
@click.option(
    "--responses", is_flag=True, help="Compare only responses, at whatever time (a broker's log)."
)
def diff_command(expected: Path, actual: Path, show_all: bool, responses: bool) -> None:
    """Compare outputs: two files, or two folders. Exit 1 if they differ."""
    from coterie.coordinator.trace_diff import compare_responses, compare_traces

    compare = compare_responses if responses else compare_traces
    passed = failed = 0
    for name, expected_file, actual_file in compared(expected, actual):
        try:
            if actual_file is None:
                raise CoterieError(f"there is no output of it in {actual}")
            with open_lines(expected_file) as wanted_lines, open_lines(actual_file) as lines:
                differences = list(compare(wanted_lines, lines))
        except READ_ERRORS as error:
            say(f"coterie: {name}: {unreadable(expected_file, error)}")
            failed += 1
            continue
        for difference in differences if show_all else differences[:1]:
            print_text(f"{name} {difference}")
        passed, failed = passed + (not differences), failed + bool(differences)
    click.echo(f"{passed} passed, {failed} failed")
    if failed or not passed:
        raise click.exceptions.Exit(1)


def config_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse ``--set`` options; raise a usage error for a wrong setting."""
    try:
        config = dict(map(parse_setting, pairs))
        coordinator_config(config)
    except ConfigError as error:
        raise click.UsageError(f"--set: {error}") from None
    return config


set_option = click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting, by Kafka's name."
)


@command.command("import")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--out", required=True, metavar="DIR", help="Folder for the trace and its answers.")
@click.option("--name", default=None, help="Name of the trace; default: the log's.")
@click.option(
    "--server-log",
    "server_logs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="The broker's server log: when it started again or removed offsets; repeatable.",
)
@set_option
@overwrite_option
def import_command(
    log: Path,
    out: str,
    name: str | None,
    server_logs: tuple[Path, ...],
    pairs: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Make a trace of a broker's request log (kafka.request.logger at DEBUG).

    Writes NAME.trace.jsonl and, from the broker's own answers, NAME.expected.jsonl; compare with
    `coterie trace diff --responses`. The log does not tell the broker's settings: give those
    that are not Kafka's defaults with --set. A restart of the broker becomes a failover; it shows
    in its connections, and in its server log. A log with consumer groups becomes a trace of
    version 2.
    """
    from coterie.cli.output_file import check_files_in
    from coterie.coordinator.requestlog import import_request_log
    from coterie.coordinator.restarts import check_server_log, started_times
    from coterie.coordinator.trace_removals import removals

    config = config_of(pairs)
    title = name or log.name.removesuffix(".gz").removesuffix(".log")
    targets = [Path(out) / f"{title}.{kind}.jsonl" for kind in ("trace", "expected")]
    inputs = [str(log), *map(str, server_logs)]
    check_files_in(out, targets, overwrite=overwrite, inputs=inputs)
    for file in server_logs:
        read_lines(file, check_server_log)
    started = [at_ms for file in server_logs for at_ms in read_lines(file, started_times)]
    removed = [
        removal
        for file in server_logs
        for removal in read_lines(file, lambda lines: list(removals(lines)))
    ]
    imported = read_lines(
        log, lambda lines: import_request_log(lines, config, title, started, removed)
    )
    for target, written in zip(targets, (imported.trace, imported.expected), strict=True):
        write_lines(target, written, overwrite=overwrite, inputs=inputs)
    events = len(imported.trace) - 1
    say(f"{events} events from {imported.start} on")
    if imported.wrong:
        say(f"{imported.wrong} of {imported.compared} answers differ under these settings")
    if imported.missing:
        costs = "; ".join(dict.fromkeys(imported.missing.values()))
        say(f"the log has no {', '.join(imported.missing)}, which the broker may not log: {costs}")
    if imported.tried:
        say(f"settings were tried on the first {imported.tried:,} of {events:,} events")
    if imported.compared < len(imported.expected):
        say("the log is too long to be run: close requests and late timers stand as it has them")
    for shown in imported.shown:
        say(f"the broker's answers show another setting: {shown}")
    for last, first in imported.outages:
        say(f"the broker was down between {last} and {first}: failover")
    for reason, count in sorted(imported.left_out.items()):
        say(f"left out: {count} x {reason}")


def read_lines(path: Path, read: Callable[[Iterable[str]], T]) -> T:
    """Pass the lines of a log to a reader; raise CoterieError if the log cannot be read."""
    try:
        with open_lines(path, errors="replace") as lines:
            return read(lines)
    except READ_ERRORS as error:
        raise CoterieError(unreadable(path, error)) from None


def factors(pairs: tuple[str, ...]) -> dict[str, float]:
    """Parse ``CLIENT=FACTOR`` options."""
    by_client = {}
    for pair in pairs:
        client, _, factor = pair.rpartition("=")
        try:
            by_client[client] = float(factor)
        except ValueError:
            raise click.UsageError(f"--scale-session: {pair!r} must be CLIENT=FACTOR") from None
        if not client or not 0 < by_client[client] < 1e6:
            raise click.UsageError(f"--scale-session: {pair!r} must be CLIENT=FACTOR, above 0")
    return by_client


@command.command("whatif")
@click.argument("trace", type=click.Path(path_type=Path))
@set_option
@click.option("--scale-session", multiple=True, metavar="CLIENT=FACTOR",
              help="Scale the session timeouts of a client id.")  # fmt: skip
@click.option("--static", multiple=True, metavar="CLIENT", help="Give a client id a static id.")
@click.option(
    "--format", "shape", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def whatif_command(
    trace: Path,
    pairs: tuple[str, ...],
    scale_session: tuple[str, ...],
    static: tuple[str, ...],
    shape: str,
) -> None:
    """Run a trace as it is and under other settings; compare rebalances, times, evictions."""
    from coterie.coordinator.trace import load_trace
    from coterie.coordinator.whatif import Changes, what_if

    changes = Changes(config_of(pairs), factors(scale_session), frozenset(static))
    try:
        with open_lines(trace) as lines:
            base, changed = what_if(load_trace(lines), changes)
    except READ_ERRORS as error:
        raise CoterieError(unreadable(trace, error)) from None
    before, after = base.rows(), changed.rows()
    if shape == "json":
        click.echo(json.dumps({"as_recorded": before, "what_if": after}))
        return
    width = max(map(len, before))
    click.echo(f"{'':<{width}}  {'as recorded':>14}  {'what if':>14}  {'change':>14}")
    for name, value in before.items():
        change = after[name] - value
        click.echo(f"{name:<{width}}  {value:>14}  {after[name]:>14}  {change:>+14}")
