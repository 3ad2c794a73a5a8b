"""What looks wrong in a log: each finding with the record that shows it.

``KINDS`` names the kinds of findings in order of severity, ``FINDERS`` the functions that find
them. A new kind is a line in each of the two. A finder's rows need only some of ``FIELDS``: its
``kind``, ``group_id``, ``detail``, and the record (``timestamp``, ``log_offset``, ``file``,
``position``). Rows with an equal ``loop`` become one finding (``audit_loops``). A row with a true
``always`` is a finding whatever time is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.base.ordering import java_order
from coterie.insight.groups.outages import OutageDetector
from coterie.insight.groups.shared_group_ids import (
    CLIENT,
    several_protocols,
    two_applications,
)
from coterie.insight.offsets.commit_findings import (
    LARGE_METADATA,
    NO_PROGRESS,
    REWIND,
    CommitFindings,
)
from coterie.insight.offsets.divergence import Live, divergences
from coterie.insight.offsets.log_starts import OUT_OF_RANGE, below_log_start
from coterie.insight.offsets.loss_findings import (
    OPEN_TRANSACTION,
    SKIP,
    STALL,
    Losses,
    Thresholds,
)
from coterie.insight.offsets.outside_spans import OutsideSpans, TakenBack
from coterie.insight.parameters import check_bounds, parameter, same
from coterie.insight.questions import audit_loops, explain
from coterie.insight.questions.audit_groups import (
    FLAPPING,
    GENERATION_GAP,
    STATIC_FIGHT,
    flapping_clients,
    generation_gaps,
    shared_ids,
    static_fights,
)
from coterie.insight.questions.audit_partitions import SEVERAL_PARTITIONS, groups_in_several
from coterie.insight.questions.audit_revocations import REVOCATION, slow_revocations
from coterie.insight.questions.server_log_lines import BrokerLogLine
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.log.joined import STEP_BITS

NAME = "audit"
FIELDS = {
    "kind": "string",  # of KINDS
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "detail": "string",  # the finding as text
    "count": "int64",  # records that show it
    "offset": "int64",  # committed by the record
    "previous_offset": "int64",  # committed before it, or by the live state
    "group_instance_id": "string",
    "clients": [CLIENT],  # the clients involved, if known; topics null: not known
    "timestamp": "timestamp",
    "log_offset": "int64",  # the record that shows it, and where it lies
    "file": "string",
    "position": "int64",
    "previous_log_offset": "int64",  # the record before it, or the first of several
    "severity": "string",  # of SEVERITIES
    **audit_loops.FIELDS,
}
DATA, PROGRESS, COST = "data", "progress", "cost"
SEVERITIES = {DATA: "data lost or repeated", PROGRESS: "no progress", COST: "cost"}
PROTOCOLS, APPLICATIONS, DIVERGENCE = "protocols", "applications", "divergence"
Row = dict[str, Any]


class Kind(NamedTuple):
    """A kind of finding: what it endangers, and what it is."""

    severity: str  # of SEVERITIES
    description: str


KINDS = {  # in order of severity
    SKIP: Kind(DATA, "records that a group passed over: after a removal, by a reset or a seek"),
    REWIND: Kind(DATA, "a commit that goes back behind the one before it"),
    SEVERAL_PARTITIONS: Kind(
        DATA, "a group with records in several partitions of the offsets topic"
    ),
    OUT_OF_RANGE: Kind(DATA, "a commit below the log start offset: records deleted unread"),
    DIVERGENCE: Kind(DATA, "a live state that differs from the log's"),
    OPEN_TRANSACTION: Kind(PROGRESS, "offsets that wait for the end of a transaction"),
    STALL: Kind(PROGRESS, "a partition that stands still while others of its topic move"),
    REVOCATION: Kind(PROGRESS, "a member that does not give up its partitions to others"),
    STATIC_FIGHT: Kind(PROGRESS, "a static member's id taken over again and again"),
    GENERATION_GAP: Kind(PROGRESS, "generations without a record, or that go back"),
    NO_PROGRESS: Kind(PROGRESS, "the same offset committed again and again"),
    FLAPPING: Kind(COST, "a client that comes and goes again and again"),
    PROTOCOLS: Kind(COST, "one group id, several protocols"),
    APPLICATIONS: Kind(COST, "one group id, members whose topics have nothing in common"),
    LARGE_METADATA: Kind(COST, "commits that carry much metadata"),
}


@dataclass(frozen=True)
class Parameters:
    """What to look for, and the thresholds.

    ``only``: kinds to look for; empty: all. ``broker_log_lines``: of a broker's request log, which
    name the client that took over a static id. ``live``: the state to compare with.
    """

    only: tuple[str, ...] = ()
    rewind_by: int = parameter(
        1, "Report a commit that goes back by at least so many offsets.", least=1
    )
    no_progress: int = parameter(10, "Report so many commits of the same offset in a row.", least=2)
    metadata_bytes: int = parameter(1024, "Report metadata larger than this.")
    skip_by: int = parameter(
        1, "Report a commit that passes over at least so many records.", least=1
    )
    skip_rate: int = parameter(
        1000,
        "Records a second: a step forward that nothing but its size shows to be a skip is at least "
        "so fast.",
        least=1,
    )
    stall_ms: int = parameter(
        60_000,
        "Report a partition that stands still so long while others of its topic move.",
        option="--stall-for",
    )
    open_ms: int = parameter(
        10_000,
        "Report offsets that wait for the end of a transaction at least so long.",
        option="--open-for",
    )
    revoking_ms: int = parameter(
        60_000,
        "Report a member of a consumer group that does not give up partitions for so long.",
        option="--revoking-for",
    )
    takeovers: int = parameter(
        3, "Report a static id that changes hands so often within --window.", least=2
    )
    window_ms: int = parameter(600_000, "See --takeovers.", option="--window")
    flap_count: int = same(explain.Parameters, "flap_count")
    flap_window_ms: int = same(explain.Parameters, "flap_window_ms")
    broker_log_lines: tuple[BrokerLogLine, ...] = ()
    live: Live | None = None

    def __post_init__(self) -> None:
        check_bounds(self)

    def looks_for(self, kind: str) -> bool:
        return not self.only or kind in self.only


class Finder(NamedTuple):
    """Finds some kinds of findings in a partition.

    ``rows(view, parameters, aggregate)`` yields them. ``aggregate`` is what the function of that
    name made, filled with the pieces of the log; None: the finder needs no pieces. A finder is
    only called if one of its kinds is requested, and yields no other kinds than those requested.
    """

    kinds: tuple[str, ...]
    rows: Callable[[PartitionView, Parameters, Any], Iterable[Row]]
    aggregate: Callable[[PartitionView, Parameters], Aggregate] | None = None

    @property
    def name(self) -> str:
        return f"{NAME}.{self.kinds[0]}"


def commit_findings(view: PartitionView, parameters: Parameters) -> CommitFindings:
    """Return the aggregate that finds what is wrong in commits."""
    looks_for = parameters.looks_for
    return CommitFindings(
        parameters.rewind_by if looks_for(REWIND) else None,
        parameters.no_progress if looks_for(NO_PROGRESS) else None,
        parameters.metadata_bytes if looks_for(LARGE_METADATA) else None,
        view.trusted_from_ms,
        TakenBack(OutsideSpans(view)),
    )


def losses(view: PartitionView, parameters: Parameters) -> Losses:
    """Return the aggregate that finds skipped and repeated records, stalls, open transactions."""
    looks_for = parameters.looks_for
    thresholds = Thresholds(
        parameters.skip_by if looks_for(SKIP) else None,
        parameters.skip_rate,
        parameters.rewind_by if looks_for(REWIND) else None,
        parameters.stall_ms if looks_for(STALL) else None,
        parameters.open_ms if looks_for(OPEN_TRANSACTION) else None,
    )
    return Losses(view, thresholds)


def gap_rows(view: PartitionView, parameters: Parameters, _: None) -> Iterator[Row]:
    for history in view.histories.values():
        for row in generation_gaps(history, view.trusted_from_ms):
            # A group begins anew in another partition.
            if row["log_offset"] >> STEP_BITS == row["previous_log_offset"] >> STEP_BITS:
                yield row


def fight_rows(view: PartitionView, parameters: Parameters, _: None) -> Iterator[Row]:
    """Yield the static ids that are taken over again and again."""
    limits = parameters.takeovers, parameters.window_ms
    for history in view.histories.values():
        yield from static_fights(view, history, *limits, parameters.broker_log_lines)


FINDERS = (
    Finder(
        (REWIND, NO_PROGRESS, LARGE_METADATA),
        lambda view, parameters, findings: findings.rows(),
        commit_findings,
    ),
    Finder(
        (SKIP, REWIND, STALL, OPEN_TRANSACTION),
        lambda view, parameters, found: found.rows(view),
        losses,
    ),
    Finder(
        (REVOCATION,),
        lambda view, parameters, _: slow_revocations(view, parameters.revoking_ms),
    ),
    Finder((SEVERAL_PARTITIONS,), lambda view, parameters, _: groups_in_several(view)),
    Finder((STATIC_FIGHT,), fight_rows),
    Finder((GENERATION_GAP,), gap_rows),
    Finder(
        (FLAPPING,),
        lambda view, parameters, outages: flapping_clients(
            view, parameters.flap_count, parameters.flap_window_ms, outages.outages(view)
        ),
        lambda view, parameters: OutageDetector(view.trusted_from_ms, ()),
    ),
    Finder(
        (PROTOCOLS,),
        lambda view, parameters, _: shared_ids(PROTOCOLS, several_protocols(view)),
    ),
    Finder(
        (APPLICATIONS,),
        lambda view, parameters, _: shared_ids(APPLICATIONS, two_applications(view)),
    ),
)


def finders(parameters: Parameters) -> list[Finder]:
    return [finder for finder in FINDERS if any(map(parameters.looks_for, finder.kinds))]


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    return {
        finder.name: (view.record_filter, finder.aggregate(view, parameters))
        for finder in finders(parameters)
        if finder.aggregate is not None
    }


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield one row for each finding, in the order of :func:`in_order`."""
    filled = aggregates_of(view, aggregates, parameters)
    atoms: list[Row] = []
    for finder in finders(parameters):
        atoms += finder.rows(view, parameters, filled.get(finder.name))
    # A loop that began before the log is whole would hide what happened since.
    since_ms = view.trusted_from_ms or 0
    older = [row for row in atoms if row["timestamp"] is not None and row["timestamp"] < since_ms]
    newer = [row for row in atoms if row["timestamp"] is None or row["timestamp"] >= since_ms]
    found_rows = [
        row
        for row in audit_loops.merged(older) + audit_loops.merged(newer)
        if row.get("always") or view.is_requested(row["timestamp"], row["log_offset"])
    ]
    audit_loops.add_owners(view, found_rows)
    if parameters.live is not None and parameters.looks_for(DIVERGENCE):
        found_rows += audit_loops.merged(divergences(view, parameters.live))
    if parameters.live is not None and parameters.looks_for(OUT_OF_RANGE):
        found_rows += audit_loops.merged(below_log_start(view, parameters.live.log_starts))
    yield from in_order(filled_row(view, row) for row in found_rows)


def filled_row(view: PartitionView, row: Row) -> Row:
    filled: Row = {"offsets_partition": view.number, "count": 1, "clients": [], "members": []}
    filled |= {"severity": KINDS[row["kind"]].severity} | row
    return {name: filled.get(name) for name in FIELDS}


def in_order(found_rows: Iterable[Row]) -> list[Row]:
    """Return findings by severity and kind, then by count, by group, and by place in the log."""
    severities = {severity: number for number, severity in enumerate(SEVERITIES)}
    order = {kind: number for number, kind in enumerate(KINDS)}

    def rank(row: Row) -> tuple[Any, ...]:
        place = -1 if row["log_offset"] is None else row["log_offset"]
        severity = severities[row["severity"]]
        return severity, order[row["kind"]], -row["count"], java_order(row["group_id"]), place

    return sorted(found_rows, key=rank)
