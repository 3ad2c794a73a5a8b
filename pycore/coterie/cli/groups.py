"""``coterie groups``: kafka-consumer-groups' own views and columns, from a log."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from coterie._core.codec.compression import partition_for
from coterie.base.ordering import java_order
from coterie.base.terminal import write_data
from coterie.base.times import format_time
from coterie.cli.failures import say, say_faults
from coterie.cli.group_names import all_excluded, chosen_groups, remaining
from coterie.cli.logs import (
    Logs,
    beyond_notes,
    logs_argument,
    say_each,
    say_left_alone,
    trust_notes,
)
from coterie.cli.output_file import text_of
from coterie.cli.params import at_option, group_exclude_option, group_option
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, find_share_state
from coterie.log.trust import trusted_from
from coterie.state import group_views as views
from coterie.state import tabular
from coterie.state.assignments import assignments
from coterie.state.local_replay import scan_state
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.redpanda import REDPANDA, is_of_redpanda
from coterie.state.several_partitions import groups_in, lines_of

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
ANY = "any"  # every kind, and groups that none of Kafka's tools shows
HEADED = (("consumer", "members"), ("connect", "members"))  # also without members
VIEW_NAMES = ("offsets", "members", "state")


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    logs: Logs
    listing: bool
    describe: bool
    groups: tuple[str, ...]
    excluded: tuple[str, ...]
    all_groups: bool
    offsets: bool
    members: bool
    state: bool
    with_type: bool
    verbose: bool
    at_ms: int | None
    ends_file: str | None
    kind: str
    form: str
    layout: str


@click.command("groups")
@logs_argument
@click.option("--list", "listing", is_flag=True, help="List the groups.")
@click.option("--describe", is_flag=True, help="Describe the groups of --group or --all-groups.")
@group_option
@group_exclude_option
@click.option("--all-groups", is_flag=True, help="Every group of the kind.")
@click.option("--offsets", is_flag=True, help="Partitions with offsets and members (the default).")
@click.option("--members", is_flag=True, help="Members.")
@click.option("--state", is_flag=True, help="State; with --list: as a column.")
@click.option("--type", "with_type", is_flag=True, help="With --list: the type as a column.")
@click.option("--verbose", is_flag=True, help="Assignments, epochs.")
@at_option
@click.option(
    "--end-offsets",
    "ends_file",
    metavar="FILE",
    help="The ends of partitions, for LOG-END-OFFSET and LAG of --offsets: topic:partition:offset "
    "lines, as kafka-get-offsets prints, or CSV: time,topic,partition,offset.",
)
@click.option(
    "--kind",
    type=click.Choice([*views.KINDS, ANY]),
    default="consumer",
    show_default=True,
    help="Whose views: kafka-consumer-groups', kafka-share-groups' or kafka-streams-groups'; any: "
    "all groups, Kafka Connect's and Schema Registry's too.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "3.9", "4.1"]),
    default="auto",
    show_default=True,
    help="Whose tables: Kafka 3.9's or 4.1's; auto: 4.1's if the log holds records of consumer, "
    "share or streams groups (key versions 3 and up), which only its coordinator writes.",
)
def command(**arguments: Any) -> None:
    """Show consumer groups as kafka-consumer-groups shows them, from a log.

    Columns, widths and messages are Kafka's. COORDINATOR is "-", and so are LOG-END-OFFSET and LAG
    without --end-offsets: a log does not tell them. Start offsets of share groups come from
    __share_group_state-N folders beside the log's. A group that is named with --group is shown
    whatever its kind. Where Kafka's order depends on a hash, groups are sorted by id, members by
    number of partitions and id, partitions by topic and number. JSON and CSV have every column of
    the view.
    """
    options = Options(**arguments)
    view = _check(options)
    named = chosen_groups(options.groups, options.logs.listing) or frozenset()
    state = fold_logs(options.logs, options.at_ms, named)
    orders = state.in_several_partitions()
    shown = {name: order for name, order in orders.items() if not named or name in named}
    say_each(lines_of(shown, state.partition_count))
    if any(is_of_redpanda(fold) for _, fold in state.live()):
        say(f"coterie: {REDPANDA}")
    since = untrusted_since(state, options.at_ms)
    if options.at_ms is not None:
        folds = state.partitions.values()
        newest = [piece.max_timestamp for fold in folds for piece in fold.segments]
        say_each(beyond_notes(options.at_ms, max(newest, default=options.at_ms)))
    everyone = options.all_groups and view == "offsets"
    rows = state.groups(offsets_of=None if everyone else named)
    ids = {row["group_id"] for row in rows}
    left = remaining(ids | named, ids, options.excluded)
    if options.excluded and not left:
        raise all_excluded(options.excluded)
    rows = [row for row in rows if row["group_id"] in left]
    named &= left
    of_kind = [row for row in rows if options.kind in (ANY, views.kind_of(row))]
    if options.listing:
        _print_list([views.list_row(row) for row in of_kind], options)
        say_each(trust_notes(options.logs.listing, since))
        return
    old = options.layout == "3.9" or (
        options.layout == "auto" and not any(fold.newer for _, fold in state.live())
    )
    missing: list[str] = []
    if not options.all_groups:
        by_id = {row["group_id"]: row for row in rows}
        requested = sorted(named, key=java_order)
        missing = [name for name in requested if name not in by_id]
        of_kind = [by_id[name] for name in requested if name in by_id]
    if view == "offsets":
        _add_share_state(of_kind, options)
    ends = _end_offsets(options)
    _describe(of_kind, view, options.form, old, options.verbose, ends)
    for name in missing:
        if options.at_ms is not None and may_be_lost(name, options.logs.listing, since):
            say(
                f"coterie: group {name!r}: no record of it up to {format_time(options.at_ms)} is "
                "left; the log was compacted, so whether it existed then is not known"
            )
        else:
            say(f"Error: Consumer group '{name}' does not exist.")
    say_each(trust_notes(options.logs.listing, since))
    if missing:
        raise click.exceptions.Exit(1)


def _check(options: Options) -> str:
    """Return the name of the view; raise a usage error for contradictory options."""
    views_chosen = [name for name in VIEW_NAMES if getattr(options, name)]
    if options.listing == options.describe:
        raise click.UsageError("give exactly one of --list and --describe")
    if options.listing:
        if options.groups or options.offsets or options.members:
            raise click.UsageError("--list goes without --group, --offsets and --members")
        if options.ends_file is not None:
            raise click.UsageError("--end-offsets goes with --offsets")
        return "list"
    if options.with_type:
        raise click.UsageError("--type goes with --list only")
    if bool(options.groups) == options.all_groups:
        raise click.UsageError("--describe needs either --group or --all-groups")
    if len(views_chosen) > 1:
        raise click.UsageError("give one of --offsets, --members and --state")
    view = views_chosen[0] if views_chosen else "offsets"
    if options.ends_file is not None and view != "offsets":
        raise click.UsageError("--end-offsets goes with --offsets")
    return view


def untrusted_since(state: PartialState, at_ms: int | None) -> dict[int | None, int]:
    """Return the partitions whose state at ``at_ms`` is incomplete, and since when it is whole."""
    if at_ms is None:
        return {}
    since = {number: trusted_from(state.partitions[number].segments) for number in state.numbers()}
    return {number: ms for number, ms in since.items() if ms is not None and at_ms < ms}


def may_be_lost(group: str, listing: Listing, since: Mapping[int | None, int]) -> bool:
    """Return whether compaction may have removed the records of a group."""
    count = listing.partition_count()
    return bool(since) if count is None else partition_for(group, count) in since


def fold_logs(logs: Logs, at_ms: int | None, named: frozenset[str]) -> PartialState:
    """Fold the logs in this process; print which files and corrupt places were skipped."""
    listing = logs.listing
    say_left_alone(listing)
    with TerminalProgress() as progress:
        state = scan_state(listing, ScanOptions(at_ms=at_ms), progress)
        notes = end_in_log_order(state, listing, named)
    say_each(notes)
    faults = sum(fold.fault_count for fold in state.partitions.values())
    say_faults(faults)
    return state


def end_in_log_order(state: PartialState, listing: Listing, named: frozenset[str]) -> list[str]:
    """Fold each partition again whose times go back behind the time of the state's options.

    Return the notes on those that have named groups; of none named: on each.
    """
    at_ms = state.options.at_ms
    if at_ms is None:
        return []
    from coterie.insight.records.log_reader import SurveyedLog
    from coterie.log.clock import cut_at
    from coterie.log.clock_notes import ClockNotes

    notes = ClockNotes()
    for number, segments in listing.partitions().items():
        scanned = state.fold(number).segments
        cut = cut_at(segments, scanned, at_ms)
        if cut is not None:
            by_times = state.partitions[number]
            fold = state.partitions[number] = SurveyedLog(segments, state.options, cut=cut).fold
            fold.segments[:] = scanned
            if not named or named & (groups_in(by_times) | groups_in(fold)):
                notes.take(number, (), cut)
    return list(notes.notes())


def _print_list(rows: list[views.Row], options: Options) -> None:
    if options.form == "table":
        columns = [("type", options.with_type), ("state", options.state)]
        fields = [name for name, shown in columns if shown]
        drawn = tabular.draw_list(rows, fields)
        if fields:
            _print_table(drawn)
        else:  # names without a heading
            _print(drawn.text)
    else:
        _print_rows(rows, options.form)


def _add_share_state(groups: Sequence[views.Row], options: Options) -> None:
    """Give share groups the states of their partitions, if the log of these is there."""
    share_groups = [group for group in groups if group["type"] == "share"]
    if not share_groups:
        return
    from coterie.state.share_state import ShareStates

    listing = find_share_state(options.logs.paths)
    if not listing.segments:
        return
    states = ShareStates(listing, options.at_ms)
    for fault in states.faults:
        say(f"coterie: {fault}")
    for group in share_groups:
        group["share_state"] = states.partitions


def _end_offsets(options: Options) -> dict[tuple[str, int], int]:
    """Return the last known end of each partition, up to --at."""
    if options.ends_file is None:
        return {}
    from coterie.insight.offsets.end_offsets import read_end_offsets

    at_ms, ends = options.at_ms, {}
    for place, samples in read_end_offsets(options.ends_file).samples.items():
        for sample in samples:
            is_later = at_ms is not None and sample.time_ms is not None and sample.time_ms > at_ms
            if sample.offset is not None and not is_later:
                ends[place] = sample.offset
    return ends


def _describe(
    groups: Sequence[views.Row],
    view: str,
    form: str,
    old: bool,
    verbose: bool,
    ends: Mapping[tuple[str, int], int],
) -> None:
    rows: list[views.Row] = []
    first = True
    for group in groups:
        kind = views.drawn_as(group, view)
        _warn(group, kind)
        group_rows = views.VIEWS[kind, view](group)
        if ends:
            views.with_end_offsets(group_rows, ends)
        rows += group_rows
        states = group.get("share_state", {}).values()
        counted = any(state.delivery_complete_count is not None for state in states)
        style = tabular.TableStyle(kind, view, old, verbose, share_lag=counted)
        # Kafka prints the headings of `--members` also for a group without members.
        if form == "table" and (group_rows or (kind, view) in HEADED):
            _print_table(tabular.draw(style, group_rows, first=first))
            first = False
        if view == "offsets" and group["pending_transactional_offsets"]:
            say_open_transactions(group, style)
        if view == "members" and form == "table" and (late := views.unreconciled_rows(group)):
            say("", f"Members of group '{group['group_id']}' without their target:")
            _say_table(tabular.draw_unreconciled(style, late))
    if form != "table":
        _print_rows(rows, form)


def say_open_transactions(group: views.Row, style: tabular.TableStyle) -> None:
    """Print the offsets that open transactions hold, on standard error: no view of Kafka's has it.

    ``since`` is the time of the last pending commit of each partition.
    """
    say("", f"Open transactions hold offsets of group '{group['group_id']}':")
    _say_table(tabular.draw_open_transactions(style, views.open_transaction_rows(group)))


def _warn(group: views.Row, kind: str) -> None:
    """Print the warnings of Kafka's tool on a group, and the members that cannot be read."""
    if group["state"] == "Empty":
        say("", f"{kind.capitalize()} group '{group['group_id']}' has no active members.")
    elif group["state"] in REBALANCING and kind == "consumer":
        say("", f"Warning: Consumer group '{group['group_id']}' is rebalancing.")
    for member_id, (_, problem) in assignments(group).items() if kind == "consumer" else ():
        if problem:
            say(f"coterie: group {group['group_id']!r}, member {member_id!r}: {problem}")


def _print_rows(rows: Sequence[views.Row], form: str) -> None:
    with text_of(None) as out:
        write_data([tabular.as_json(rows) if form == "json" else tabular.as_csv(rows)], out)


def _print_table(drawn: tabular.Drawn) -> None:
    """Print a table as Kafka's tool does; at a terminal that is too narrow, as other commands."""
    if sys.stdout.isatty():
        _show(drawn, sys.stdout)
    else:
        _print(drawn.text)


def _say_table(drawn: tabular.Drawn) -> None:
    if sys.stderr.isatty():
        _show(drawn, sys.stderr)
    else:
        say(*drawn.text.rstrip().split("\n"))


def _show(drawn: tabular.Drawn, out: TextIO) -> None:
    from coterie.cli.tables import show_tables
    from coterie.insight.tables import NAME, Table

    headings = drawn.lines[0]
    texts = ["ASSIGNMENT" in heading for heading in headings]
    spaced = [
        [cell.replace(",", ", ").replace(";", "; ") if is_text else cell for cell in cells]
        for is_text, (_, *cells) in zip(texts, zip(*drawn.lines, strict=True), strict=True)
    ]
    kinds = ["string" if is_text else NAME for is_text in texts]
    show_tables([Table(None, headings, kinds, spaced, plain=drawn.text.split("\n")[:-1])], out)


def _print(text: str) -> None:
    click.echo(text.encode("utf-8"), nl=False)  # as Kafka's tool does, in any locale
