"""``coterie undo --execute``: the offsets of a plan, committed on the cluster.

As with ``kafka-consumer-groups --reset-offsets``, groups with members are refused, and an offset
outside of its partition's log becomes the log's start or end. The offsets before are saved first.
Source: ConsumerGroupCommand.resetOffsets, checkOffsetsRange.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie import csvrows
from coterie.atomic_file import check_file
from coterie.cli.asking import Options
from coterie.cli.failures import Failed, Terminated, say
from coterie.cli.outfile import text_of, whole_file
from coterie.insight.asking import Row
from coterie.insight.groups.causes import counted
from coterie.times import epoch_ms

if TYPE_CHECKING:
    import asyncio

    from coterie.cluster.cluster import Cluster
    from coterie.cluster.errors import ClusterError

FIELDS = {
    "group_id": "string",
    "topic": "string",
    "partition": "int32",
    "offset_before": "int64",  # what the cluster had; null: nothing
    "offset": "int64",  # what was to be committed
    "outcome": "string",
    "note": "string",
}
DOUBTS_SHOWN = 3
COMMITTED, UNCHANGED, FAILED = "committed", "unchanged", "failed"
Place = tuple[str, int]
Offsets = Mapping[Place, int]


def reset_lines(rows: Iterable[Row], *, with_group: bool) -> Iterator[str]:
    """Yield the lines of a file for ``--from-file``: no heading, a line per partition."""
    line = csvrows.line_writer()
    for row in rows:
        group = [row["group_id"]] if with_group else []
        yield line([*group, row["topic"], row["partition"], row["offset"]])


class Ranges(NamedTuple):
    """The first and the end offset of partitions, and why those of a topic are not known."""

    first: Offsets
    end: Offsets
    failed: dict[str, ClusterError]


def commit_plan(
    planned: list[Row], save_file: str | None, options: Options, *, yes: bool
) -> list[Row]:
    """Commit the offsets of rows of ``undo``; return the outcome of each partition.

    If offsets go back, or the group has committed since, people have to agree first, unless
    ``yes``.

    Raises
    ------
    CoterieError
        A group has members, nobody agrees, the cluster refuses or does not answer, or the offsets
        before cannot be saved. Then nothing was committed.
    """
    from coterie.cli.livestate import on_cluster_again  # with asyncio, which takes long to import

    plan: dict[str, dict[Place, int]] = {}
    for row in planned:
        plan.setdefault(row["group_id"], {})[row["topic"], row["partition"]] = row["offset"]
    save = f"offsets-before-{epoch_ms()}.csv" if save_file is None else save_file
    if os.path.lexists(save):
        raise Failed(f"--save {save}: is there already; name another file")
    inputs = options.inputs
    check_file(save, overwrite=False, inputs=inputs, option="--save")
    outcomes: list[Row] = []
    agreed: dict[str, Offsets] | None = None  # what the cluster had when people agreed
    doubts: list[str] = []

    async def work(cluster: Cluster, stop: asyncio.Event) -> None:
        nonlocal agreed
        from coterie.cluster.stopping import run_until

        found = await run_until(stop, _look(cluster, plan))
        if found is None:
            return
        before, ranges = found
        if agreed is None:
            doubts.extend(_doubts(planned, before))
            agreed = before
            if doubts and not yes:
                return
        elif agreed != before:
            raise Failed("the offsets have changed meanwhile: look again; nothing was committed")
        for line in doubts if yes else ():
            say(f"coterie: {line}")
        _save_before(save, before, plan, inputs)
        say(f"coterie: the offsets before are in {save}, for --reset-offsets --from-file")
        for group, offsets in plan.items():
            if stop.is_set():
                notes = dict.fromkeys(offsets, "interrupted before it was committed")
                made = _rows(group, offsets, before[group], {}, notes)
            else:
                made = await _committed(cluster, group, offsets, before[group], ranges)
            outcomes.extend(made)

    try:
        on_cluster_again(options, work)
        if doubts and not yes:
            _ask(doubts)
            on_cluster_again(options, work)
    except (KeyboardInterrupt, Terminated):
        if not outcomes:  # else what was committed has to be shown
            raise
    trusted = {row["group_id"]: row["trusted_from"] for row in planned}
    return [{**row, "trusted_from": trusted[row["group_id"]]} for row in outcomes]


def _save_before(
    save: str, before: Mapping[str, Offsets], plan: Mapping[str, Offsets], inputs: Iterable[str]
) -> None:
    """Write what the cluster has for the partitions of the plan, as a file for the tool."""
    saved = [
        {"group_id": group, "topic": place[0], "partition": place[1], "offset": offset}
        for group, offsets in before.items()
        for place, offset in offsets.items()
        if place in plan[group]
    ]
    with (
        whole_file(save, overwrite=False, inputs=inputs) as path,
        text_of(path) as out,
    ):
        out.writelines(reset_lines(saved, with_group=len(plan) > 1))


def _doubts(planned: Iterable[Row], before: Mapping[str, Offsets]) -> Iterator[str]:
    """Yield what to agree to, for each group: offsets that go back, commits since the plan."""
    by_group: dict[str, list[Row]] = {}
    for row in planned:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, rows in by_group.items():
        now = [before[group].get((row["topic"], row["partition"])) for row in rows]
        steps = [
            row["offset"] - offset
            for row, offset in zip(rows, now, strict=True)
            if offset is not None
        ]
        if line := going_back(group, steps):
            yield line
        since = sum(
            offset not in (None, row["latest_offset"], row["offset"])
            for row, offset in zip(rows, now, strict=True)
        )
        if since:
            yield f"group {group!r} has committed {counted(since, 'partition')} since the plan"


def going_back(group: str, steps: Iterable[int]) -> str:
    """Return what it means that offsets go back, as text; empty: none does.

    ``steps``: by how much the offset of each partition changes.
    """
    back = [-step for step in steps if step < 0]
    if not back:
        return ""
    return (
        f"group {group!r} goes back by {counted(sum(back), 'offset')} in "
        f"{counted(len(back), 'partition')}: these records will be read again"
    )


def _ask(doubts: list[str]) -> None:
    """Ask at a terminal whether to commit; raise Failed if not."""
    shown = doubts[:DOUBTS_SHOWN]
    shown += [f"{len(doubts) - len(shown)} more"] if len(doubts) > len(shown) else []
    if not sys.stdin.isatty():
        raise Failed(f"{'; '.join(shown)}; nothing was committed (--yes commits it)")
    for line in shown:
        say(f"coterie: {line}")
    if not click.confirm("commit the offsets?", err=True):
        raise Failed("nothing was committed")


async def _look(cluster: Cluster, plan: Mapping[str, Offsets]) -> tuple[dict[str, Offsets], Ranges]:
    """Return what groups have committed, and the ranges of the logs; refuse groups with members."""
    from coterie.cluster.end_offsets import EARLIEST, end_offsets
    from coterie.cluster.groups import committed, describe

    before: dict[str, Offsets] = {}
    for group in plan:
        row = await describe(cluster, group)
        if row is not None and (row["members"] or row["state"] != "Empty"):
            raise Failed(
                f"group {group!r} is {row['state']} with {counted(len(row['members']), 'member')}: "
                "stop them first; nothing was committed"
            )
        found = await committed(cluster, group)
        before[group] = {place: fields["offset"] for place, fields in found.items()}
    failed: dict[str, ClusterError] = {}
    topics = {topic for offsets in plan.values() for topic, _ in offsets}
    first = await end_offsets(cluster, topics, failed.__setitem__, EARLIEST)
    end = await end_offsets(cluster, topics, failed.__setitem__)
    return before, Ranges(first, end, failed)


async def _committed(
    cluster: Cluster, group: str, offsets: Offsets, before: Offsets, ranges: Ranges
) -> list[Row]:
    """Commit what differs for one group; return the outcomes."""
    from coterie.cluster.errors import ClusterError, refusal
    from coterie.cluster.groups import commit

    notes: dict[Place, str] = {}
    in_range: dict[Place, int] = {}
    for place, offset in offsets.items():
        topic, number = place
        if topic in ranges.failed:
            notes[place] = str(ranges.failed[topic])
        elif place not in ranges.end or place not in ranges.first:
            notes[place] = f"{topic}-{number}: there is no such partition, or it has no leader"
        else:
            in_range[place] = min(max(offset, ranges.first[place]), ranges.end[place])
    to_commit = {place: offset for place, offset in in_range.items() if before.get(place) != offset}
    try:
        codes = await commit(cluster, group, to_commit) if to_commit else {}
    except ClusterError as error:
        notes |= dict.fromkeys(to_commit, str(error))
    else:
        for place in to_commit:
            code = codes.get(place)
            if code is None:
                notes[place] = "the broker does not say whether it was committed"
            elif code:
                notes[place] = str(refusal(code, f"{place[0]}-{place[1]}", "READ"))
    return _rows(group, offsets, before, in_range, notes)


def _rows(
    group: str,
    offsets: Offsets,
    before: Offsets,
    in_range: Offsets,
    notes: Mapping[Place, str],
) -> list[Row]:
    """Return the outcomes; ``notes``: why partitions failed."""
    rows = []
    for place, offset in offsets.items():
        if place in notes:
            outcome, note = FAILED, notes[place]
        else:
            outcome = UNCHANGED if before.get(place) == in_range[place] else COMMITTED
            note = None
            if in_range[place] != offset:
                note = f"{offset} is not in the partition's log, so it is {in_range[place]}"
        rows.append(
            {
                "group_id": group,
                "topic": place[0],
                "partition": place[1],
                "offset_before": before.get(place),
                "offset": offset,
                "outcome": outcome,
                "note": note,
            }
        )
    return rows
