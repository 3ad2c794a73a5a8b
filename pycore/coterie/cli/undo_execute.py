"""``coterie undo --execute``: the offsets of a plan, committed on the cluster.

As with ``kafka-consumer-groups --reset-offsets``, groups with members are refused, and an offset
outside of its partition's log becomes the log's start or end. The offsets before are saved first.
Source: ConsumerGroupCommand.resetOffsets, checkOffsetsRange.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.base import csvrows
from coterie.base.atomic_file import check_file, check_writable
from coterie.base.times import epoch_ms
from coterie.cli.failures import Failed, Terminated, explain, say
from coterie.cli.output_file import text_of, whole_file
from coterie.cli.question_command import Options
from coterie.cli.undo_warnings import by_group, going_back, risks, say_lines
from coterie.errors import CoterieError
from coterie.insight.groups.causes import counted
from coterie.insight.question_engine import Row

if TYPE_CHECKING:
    import asyncio

    from coterie.live.cluster import Cluster
    from coterie.live.cluster_errors import ClusterError

FIELDS = {
    "group_id": "string",
    "topic": "string",
    "partition": "int32",
    "offset_before": "int64",  # what the cluster had; null: nothing
    "offset": "int64",  # what was to be committed
    "outcome": "string",
    "note": "string",
}
DOUBTS_SHOWN = 6  # in the one line of a refusal: all kinds of a group
COMMITTED, UNCHANGED, FAILED = "committed", "unchanged", "failed"
Place = tuple[str, int]
Offsets = Mapping[Place, int]


def reset_lines(rows: Iterable[Row], *, with_group: bool) -> Iterator[str]:
    """Yield the lines of a file for ``--from-file``: no heading, a line per partition."""
    line = csvrows.line_writer()
    for row in rows:
        group = [row["group_id"]] if with_group else []
        yield line([*group, row["topic"], row["partition"], row["offset"]])


class GroupPlan(NamedTuple):
    """What is to be committed for a group.

    Attributes
    ----------
    rows : list of Row
        Those of the plan.
    before : dict
        What the group has of the plan's partitions.
    offsets : Offsets
        What to commit: the offsets of the plan, within the logs.
    notes : dict
        Why others cannot be committed.
    """

    group: str
    rows: list[Row]
    before: dict[Place, int]
    offsets: Offsets
    notes: dict[Place, str]

    def changes(self) -> dict[Place, int]:
        """Return the offsets that the group does not have yet."""
        return {
            place: offset
            for place, offset in self.offsets.items()
            if self.before.get(place) != offset
        }


def commit_plan(
    planned: list[Row],
    at_ms: int,
    save_file: str | None,
    options: Options,
    *,
    notes: Sequence[str],
    yes: bool,
) -> list[Row]:
    """Commit the offsets of rows of ``undo``; return the outcome of each partition.

    If records would be lost or repeated, people have to agree first, unless ``yes``. ``notes`` are
    printed before that, or before the first commit.

    Raises
    ------
    CoterieError
        A group has members, nobody agrees, the cluster refuses or does not answer, or the offsets
        before cannot be saved. Then nothing was committed.
    """
    from coterie.cli.live_state import on_cluster_again  # with asyncio, which takes long to import

    save = checked_files(save_file, options)
    groups = by_group(planned)
    outcomes: list[Row] = []
    agreed: tuple[list[dict[Place, int]], list[str]] | None = None
    doubts: list[str] = []

    async def work(cluster: Cluster, stop: asyncio.Event) -> None:
        nonlocal agreed, doubts
        from coterie.live.stopping import run_until

        plans = await run_until(stop, _look(cluster, groups))
        if plans is None:
            return
        doubts = [line for plan in plans for line in _doubts(plan, at_ms)]
        seen = [dict(plan.before) for plan in plans], doubts
        if agreed is None:
            agreed = seen
            if doubts and not yes:
                return
            say_lines([*notes, *doubts])
        elif agreed != seen:
            raise Failed("the offsets have changed meanwhile: look again; nothing was committed")
        _save_before(save, plans, options.inputs)
        say(f"coterie: the offsets before are in {save}, for --reset-offsets --from-file")
        for plan in plans:
            if stop.is_set():
                interrupted = "interrupted before it was committed"
                plan.notes.update(dict.fromkeys(map(_place, plan.rows), interrupted))
            else:
                await _commit(cluster, plan)
            outcomes.extend(_outcomes(plan))
        if seen[0] != [plan.before for plan in plans]:
            _save_again(save, plans, options.inputs)

    try:
        on_cluster_again(options, work)
        if doubts and not yes:
            _ask(notes, doubts)
            on_cluster_again(options, work)
    except (KeyboardInterrupt, Terminated):
        if not outcomes:  # else what was committed has to be shown
            raise
    return outcomes


def checked_files(save_file: str | None, options: Options) -> str:
    """Return the name of the file for the offsets before; refuse files that cannot be written."""
    save = f"offsets-before-{epoch_ms()}.csv" if save_file is None else save_file
    if os.path.lexists(save):
        raise Failed(f"--save {save}: is there already; name another file")
    target = check_file(save, overwrite=False, inputs=options.inputs, option="--save")
    folders = [target.parent]
    if options.out is not None:
        out = Path(os.path.realpath(options.out))
        if out == target:
            raise click.UsageError(f"--save {save} and --out {options.out} are one file")
        folders.append(out.parent)
    for folder in folders:
        check_writable(folder)
    return save


def _save_before(
    save: str, plans: Sequence[GroupPlan], inputs: Iterable[str], *, overwrite: bool = False
) -> None:
    """Write what the cluster has for the partitions of the plan, as a file for the tool."""
    saved = [
        {"group_id": plan.group, "topic": place[0], "partition": place[1], "offset": offset}
        for plan in plans
        for place, offset in plan.before.items()
    ]
    with (
        whole_file(save, overwrite=overwrite, inputs=inputs, option="--save") as path,
        text_of(path) as out,
    ):
        out.writelines(reset_lines(saved, with_group=len(plans) > 1))


def _save_again(save: str, plans: Sequence[GroupPlan], inputs: Iterable[str]) -> None:
    """Write the file again, with what the groups committed meanwhile; the outcomes have it, too."""
    try:
        _save_before(save, plans, inputs, overwrite=True)
    except (CoterieError, OSError) as error:
        say(f"coterie: {save} lacks what was committed meanwhile: {explain(error)[1]}")


def _doubts(plan: GroupPlan, at_ms: int) -> Iterator[str]:
    """Yield what to agree to: how records would be lost or repeated."""
    changes, group = plan.changes(), plan.group
    rows = [row for row in plan.rows if _place(row) in changes]
    yield from risks(group, rows, at_ms)
    now = {place: plan.before[place] for place in changes if place in plan.before}
    if line := going_back(group, [changes[place] - offset for place, offset in now.items()]):
        yield line
    if beyond := sum(row["offset"] > changes[_place(row)] for row in rows):
        yield (
            f"group {group!r}: the offsets of {counted(beyond, 'partition')} are beyond the end of "
            "the log: the end is committed, and the records up to there are skipped"
        )
    if below := sum(row["offset"] < changes[_place(row)] for row in rows):
        yield (
            f"group {group!r}: the offsets of {counted(below, 'partition')} are below the start of "
            "the log: the start is committed, and the records before it are gone"
        )
    since = sum(now.get(_place(row)) not in (None, row["latest_offset"]) for row in rows)
    if since:
        yield f"group {group!r} has committed {counted(since, 'partition')} since the plan"


def _ask(notes: Iterable[str], doubts: list[str]) -> None:
    """Ask at a terminal whether to commit; raise Failed if not."""
    if not sys.stdin.isatty():
        shown = doubts[:DOUBTS_SHOWN]
        shown += [f"{len(doubts) - len(shown)} more"] if len(doubts) > len(shown) else []
        raise Failed(f"{'; '.join(shown)}; nothing was committed (--yes commits it)")
    say_lines([*notes, *doubts])
    if not click.confirm("commit the offsets?", err=True):
        raise Failed("nothing was committed")


async def _look(cluster: Cluster, groups: Mapping[str, list[Row]]) -> list[GroupPlan]:
    """Return what groups have committed, and what to commit; refuse groups with members."""
    from coterie.live.cluster_groups import committed, describe

    before: dict[str, Mapping[Place, Row]] = {}
    for group in groups:
        row = await describe(cluster, group)
        if row is not None and (row["members"] or row["state"] != "Empty"):
            raise Failed(
                f"group {group!r} is {row['state']} with {counted(len(row['members']), 'member')}: "
                "stop them first; nothing was committed"
            )
        before[group] = await committed(cluster, group)
    failed: dict[str, ClusterError] = {}
    first, end = await _logs_of(cluster, [*itertools.chain(*groups.values())], failed)
    plans = []
    for group, rows in groups.items():
        found = {place: before[group].get(place) for place in map(_place, rows)}
        have = {place: fields["offset"] for place, fields in found.items() if fields is not None}
        offsets, notes = _within_logs(rows, first, end, failed)
        plans.append(GroupPlan(group, rows, have, offsets, notes))
    return plans


async def _logs_of(
    cluster: Cluster, rows: Sequence[Row], failed: dict[str, ClusterError]
) -> tuple[Offsets, Offsets]:
    """Return where the logs of the rows' partitions begin and end.

    Where an offset is outside of its log, it asks twice and believes the longer log, so that one
    mistaken answer moves no offset. What the second one leaves out is not known.
    """
    from coterie.live.end_offsets import EARLIEST, end_offsets

    first: dict[Place, int] = {}
    end: dict[Place, int] = {}
    planned = [(*_place(row), row["offset"]) for row in rows]
    topics = {topic for topic, _, _ in planned}
    for _ in range(2):
        found = await end_offsets(cluster, topics, failed.__setitem__, EARLIEST)
        first = _believed(min, first, found, topics)
        found = await end_offsets(cluster, topics, failed.__setitem__)
        end = _believed(max, end, found, topics)
        topics = {
            topic
            for topic, number, offset in planned
            if not first.get((topic, number), offset) <= offset <= end.get((topic, number), offset)
        }
    return first, end


def _believed(
    longer: Callable[[int, int], int], before: Offsets, found: Offsets, topics: set[str]
) -> dict[Place, int]:
    """Return what answers about topics make of those before."""
    others = {place: offset for place, offset in before.items() if place[0] not in topics}
    return others | {
        place: longer(offset, before.get(place, offset)) for place, offset in found.items()
    }


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _within_logs(
    rows: Iterable[Row], first: Offsets, end: Offsets, failed: Mapping[str, ClusterError]
) -> tuple[dict[Place, int], dict[Place, str]]:
    """Return the offsets of rows within their logs, and why there are none for others."""
    offsets, notes = {}, {}
    for row in rows:
        place = topic, number = _place(row)
        if topic in failed:
            notes[place] = str(failed[topic])
        elif place not in end or place not in first:
            notes[place] = f"{topic}-{number}: there is no such partition, or it has no leader"
        elif first[place] > end[place]:
            notes[place] = (
                f"{topic}-{number}: the broker answers that its log begins at {first[place]} and "
                f"ends at {end[place]}"
            )
        else:
            offsets[place] = min(max(row["offset"], first[place]), end[place])
    return offsets, notes


async def _commit(cluster: Cluster, plan: GroupPlan) -> None:
    """Commit what differs for one group; add what failed to its notes, and what it has now.

    What it has already is looked at once more, too.
    """
    from coterie.live.cluster_errors import refusal
    from coterie.live.cluster_groups import commit

    if not plan.offsets:
        return
    codes, changed, missing, failed = await commit(cluster, plan.group, plan.offsets, plan.before)
    for place in plan.offsets:
        code = codes.get(place)
        if place in missing:
            has_now = "none" if missing[place] is None else missing[place]
            plan.notes[place] = f"the broker answers that it was committed, and then has {has_now}"
        elif place in changed and changed[place] != plan.offsets[place]:
            is_now = "removed" if changed[place] is None else f"set to {changed[place]}"
            plan.notes[place] = f"the offset was {is_now} meanwhile, and was not overwritten"
        elif place in failed:
            plan.notes[place] = failed[place]
        elif code is None:
            plan.notes[place] = "the broker does not say whether it was committed"
        elif code:
            plan.notes[place] = str(refusal(code, f"{place[0]}-{place[1]}", "READ"))
    plan.before.update({place: now for place, now in changed.items() if now is not None})


def _outcomes(plan: GroupPlan) -> list[Row]:
    outcomes = []
    for row in plan.rows:
        place, offset = _place(row), row["offset"]
        note = plan.notes.get(place)
        if note is not None:
            outcome = FAILED
        else:
            outcome = UNCHANGED if plan.before.get(place) == plan.offsets[place] else COMMITTED
            if plan.offsets[place] != offset:
                note = f"{offset} is not in the partition's log, so it is {plan.offsets[place]}"
        outcomes.append(
            {
                "group_id": plan.group,
                "topic": row["topic"],
                "partition": row["partition"],
                "offset_before": plan.before.get(place),
                "offset": offset,
                "outcome": outcome,
                "note": note,
                "trusted_from": row["trusted_from"],
            }
        )
    return outcomes
