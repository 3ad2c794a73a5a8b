"""Draw a history: the same code for Hypothesis and for a seed.

Each event is drawn as a row of four numbers, whatever its kind, so that Hypothesis can replace one
kind by another, and take away an event: it deletes up to five choices at once (these, and that the
list goes on). Times are drawn in steps of 100 ms, which keeps them short
to read. The first option of each choice is the simplest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from coterie.base.arguments import boolean, milliseconds, sequence, within
from coterie.errors import ArgumentError, shown
from coterie.histories import events
from coterie.histories.choices import Choices
from coterie.histories.conditions import (
    MOST_MEMBERS,
    MOST_MINUTES,
    MOST_PROCESSING_MS,
    MOST_RATE,
    mapping,
    partition_counts,
    span,
)
from coterie.histories.events import EVENTS, MOMENTS, Event
from coterie.histories.history import History

STEP_MS = 100
DETAILS = 60  # options of a choice: a multiple of 1 to 6
T = TypeVar("T")
MOST_EVENTS = 1_000
DURING = (None, *MOMENTS)
APIS = (None, "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "LeaveGroup")
RETRIABLE = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_TOPIC_OR_PARTITION")
FATAL = ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")
OPTIONS = {
    "during": DURING,
    "api": APIS,
    "error": RETRIABLE + FATAL,
    "assignor": (None, "cooperative-sticky", "sticky", "roundrobin", None, None),
    "protocol": (None, None, None, None, "consumer", "classic"),
}


@dataclass(frozen=True)
class Plan:
    """What may be drawn; the arguments of :func:`coterie.testing.histories`, checked."""

    members: tuple[int, int]
    topics: Mapping[str, int]
    minutes: int
    events: tuple[type[Event], ...]
    most_events: int
    settings: Mapping[str, Any]
    records_per_minute: tuple[int, int]
    processing_ms: tuple[int, int]
    longest_ms: int
    outputs: Mapping[str, int]
    static: bool


def checked_events(kinds: Any) -> tuple[type[Event], ...]:
    """Return the kinds of events, which may be given by their names."""
    if kinds is None:
        return tuple(EVENTS.values())
    found: list[type[Event]] = []
    for kind in sequence(kinds, "events"):
        known = EVENTS.get(kind) if isinstance(kind, str) else kind
        if not isinstance(known, type) or known not in EVENTS.values():
            raise ArgumentError(f"events: {shown(kind)} is none of {', '.join(EVENTS)}")
        found.append(known)
    return tuple(found)


def checked_plan(**options: Any) -> Plan:
    """Check the options of histories."""
    return Plan(
        members=span(options["members"], "members", 1, MOST_MEMBERS),
        topics=partition_counts(options["topics"], "topics", 1),
        minutes=within(options["minutes"], "minutes", 1, MOST_MINUTES),
        events=checked_events(options["events"]),
        most_events=within(options["most_events"], "most_events", 0, MOST_EVENTS),
        settings=mapping(options["settings"], "settings"),
        records_per_minute=span(options["records_per_minute"], "records_per_minute", 0, MOST_RATE),
        processing_ms=span(options["processing_ms"], "processing_ms", 0, MOST_PROCESSING_MS),
        longest_ms=milliseconds(options["longest_ms"], "longest_ms"),
        outputs=partition_counts(options["outputs"], "outputs"),
        static=boolean(options["static"], "static"),
    )


def draw_history(choices: Choices, plan: Plan) -> History:
    members = choices.integer(*plan.members)
    concerned = members + (events.Join in plan.events)
    highest = (
        *(len(plan.events) - 1, plan.minutes * 60_000 // STEP_MS, plan.longest_ms // STEP_MS),
        (plan.members[1] + 1) * DETAILS - 1,
    )
    rows = choices.rows(highest, plan.most_events if plan.events else 0)
    drawn = [event_of(plan, concerned, *row) for row in rows]
    settings = {
        name: choices.pick(value) if isinstance(value, list) else value
        for name, value in plan.settings.items()
    }
    return History(
        members=members,
        topics=dict(plan.topics),
        minutes=plan.minutes,
        events=tuple(sorted(drawn, key=lambda event: event.at_ms)),
        settings=settings,
        records_per_minute=plan.records_per_minute,
        processing_ms=plan.processing_ms,
        outputs=dict(plan.outputs),
        static=plan.static,
        seed=choices.integer(0, 2**32 - 1),
    )


def event_of(plan: Plan, members: int, kind: int, at: int, time: int, rest: int) -> Event:
    """Return the event of a row of numbers; each kind uses some of them."""
    chosen = plan.events[kind]
    member, detail = divmod(rest, DETAILS)
    values: dict[str, Any] = {
        "at_ms": at * STEP_MS,
        "member": member % members,
        "topic": pick(list(plan.topics), detail),
        "count": 1 + detail % 3,
        "factor": 2 + detail,
        **dict.fromkeys(("down_ms", "pause_ms", "lasts_ms", "load_ms", "step_ms"), time * STEP_MS),
        **{name: pick(options, detail) for name, options in OPTIONS.items()},
    }
    return chosen(**{f.name: values[f.name] for f in fields(chosen)})


def pick(options: Sequence[T], detail: int) -> T:
    """Return the option of a number."""
    return options[detail % len(options)]
