"""What a command that copied a cluster's log asks the cluster besides: end offsets, live groups.

The copy is completed after that, so the log covers the time of the answers.
"""

from __future__ import annotations

from asyncio import Event
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from coterie.cli.clusters import Work, on_cluster, plan_of
from coterie.cli.end_sampling import topics_of_segment
from coterie.cli.failures import say
from coterie.cli.group_names import chosen_groups, known_groups
from coterie.cli.question_command import Options
from coterie.insight.groups.causes import counted
from coterie.insight.offsets.divergence import Live
from coterie.insight.offsets.end_offsets import SAMPLES_FILE
from coterie.insight.question_engine import Row

if TYPE_CHECKING:
    from coterie.live.cluster import Cluster
    from coterie.live.cluster_errors import ClusterError

Found = TypeVar("Found")
SAMPLE_ONCE_S = 1  # any: a copy that ends is sampled once
Place = tuple[str, int]
Rows = dict[str, Row]
Seen = tuple[Rows, dict[str, "ClusterError"]]


def on_cluster_again(options: Options, work: Work[Found]) -> Found:
    """Connect to the cluster of a command once more, after the copy; see :func:`on_cluster`.

    The work changes the copy, so it is listed anew.
    """
    logs = options.logs
    assert logs.servers is not None
    found = on_cluster(logs.servers, logs.client_file, work, again=True)
    logs.list_again()
    return found


def sampled(options: Options, groups: Container[str] | None) -> str:
    """Sample the end offsets of the topics of groups into the copy of a cluster; return the file.

    The copy is then complete until after the sample.
    """
    from coterie.cli.copying import copy

    plan = plan_of(options.groups, Path(options.logs.paths[0]))
    on_cluster_again(
        options, lambda cluster, stop: copy(cluster, stop, plan, SAMPLE_ONCE_S, groups)
    )
    return str(plan.out / SAMPLES_FILE)


def live_state(options: Options, described: bool = True) -> Live:
    """Return the live state of the requested groups, and where the logs of their topics start.

    The copy is completed between two looks at the groups. What differs between these is left out,
    so ``audit`` does not compare it. Lines on standard error say how many groups changed, and what
    the user may not see. ``described``: whether groups are described.
    """
    listing, where = options.logs.listing, options.where
    groups = chosen_groups(options.groups, listing, where, options.excluded)
    logged = known_groups(listing, where) if described and groups is None else groups or ()
    topics = {name for one in listing.segments for name in topics_of_segment(one, groups)}
    plan = plan_of(options.groups, Path(options.logs.paths[0]))
    skipped: dict[str, ClusterError] = {}

    async def look(cluster: Cluster, stop: Event) -> tuple[Seen, Seen, dict[Place, int]]:
        from coterie.cli.copying import copy
        from coterie.live.cluster_groups import list_groups, live_groups
        from coterie.live.end_offsets import EARLIEST, end_offsets
        from coterie.live.stopping import run_until

        async def seen() -> Seen:
            if not described:
                return {}, {}
            await cluster.topic(plan.topic)
            every = set(logged) if groups is not None else {*logged, *await list_groups(cluster)}
            return await live_groups(cluster, every)

        before = await run_until(stop, seen())
        starts = await run_until(stop, end_offsets(cluster, topics, skipped.__setitem__, EARLIEST))
        await copy(cluster, stop, plan)
        after = await run_until(stop, seen())
        return before or ({}, {}), after or ({}, {}), starts or {}

    (before, failed_before), (after, failed_after), starts = on_cluster_again(options, look)
    failed = failed_before | failed_after
    found = {
        group: unchanged(before.get(group), after.get(group)) for group in before.keys() | after
    }
    changed = sum(found[group] != after.get(group) for group in found.keys() - failed)
    if changed:
        say(
            f"coterie: {counted(changed, 'group')} changed while the copy was made; what changed "
            "is not compared with the live state"
        )
    if failed:
        first = min(failed)
        say(
            f"coterie: not compared with the live state: {counted(len(failed), 'group')}; "
            f"{failed[first]}"
        )
    errors = {g: {"group_id": g, "describe_error": str(error)} for g, error in failed.items()}
    return Live(found | errors, None, hidden_of(skipped), starts)


def hidden_of(skipped: Mapping[str, ClusterError]) -> frozenset[str]:
    """Return the topics that the user may not describe, and print why topics are not compared.

    A broker leaves their offsets out of those of a group (KafkaApis.fetchAllOffsetsForGroup). A
    topic that the cluster does not have needs no line.
    """
    from coterie.live.cluster_errors import NoPermission, NoTopic

    hidden = [topic for topic, error in skipped.items() if isinstance(error, NoPermission)]
    if hidden:
        say(
            f"coterie: not compared with the live state: offsets of {counted(len(hidden), 'topic')}"
            f"; topic {min(hidden)}: no permission: the user needs DESCRIBE on the topic"
        )
    others = {topic: error for topic, error in skipped.items() if not isinstance(error, NoTopic)}
    if unknown := sorted(others.keys() - hidden):
        say(
            f"coterie: the log start offsets of {counted(len(unknown), 'topic')} are not known; "
            f"{others[unknown[0]]}"
        )
    return frozenset(hidden)


def unchanged(before: Row | None, after: Row | None) -> Row:
    """Return what is the same in two states of a group; an offset that changed has no value."""
    if before is None or after is None:
        return {"group_id": (before or after or {})["group_id"]}
    same = {name: value for name, value in after.items() if before[name] == value}
    offsets = [_by_place(row["offsets"]) for row in (before, after)]
    same["offsets"] = [
        offsets[1][place]
        if offsets[0].get(place) == offsets[1].get(place)
        else {"topic": place[0], "partition": place[1]}
        for place in {**offsets[1], **offsets[0]}
    ]
    return same


def _by_place(offsets: list[Row]) -> Mapping[Place, Row]:
    return {(row["topic"], row["partition"]): row for row in offsets}
