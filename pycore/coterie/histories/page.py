"""The page of a run: a lane with the owners of each partition, what was found, the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.base.times import clock
from coterie.designs.page import TINTS, merge_marks, shortened
from coterie.histories.outcome import FINDINGS, Outcome
from coterie.histories.runner import Run
from coterie.histories.timeline import ownership, rows_of
from coterie.report import shell

if TYPE_CHECKING:
    from coterie.histories.conditions import Application, Conditions

PARTITIONS = 200


def page(history: Conditions, application: Application) -> str:
    """Run a history and return the page of the run.

    Raises
    ------
    CoterieError
        Jinja2 is missing; the message names the extra that installs it.
    """
    run = Run(history, application)
    outcome = run.outcome()
    scripts = [
        shell.asset("coterie.designs", "page/lanes.js"),
        shell.asset("coterie.histories", "assets/main.js"),
    ]
    name = getattr(application, "__name__", "an application")
    title = f"{name}: one history of a group"
    times = "Times are the history's: minutes and seconds in charts, ms in tables."
    basis = f"from one history in virtual time. {times}"
    data = page_data(outcome, run)
    whole = shell.Page(title, repr(history), "the owners", basis, scripts, data)
    return "".join(shell.render(whole))


def page_data(outcome: Outcome, run: Run) -> dict[str, Any]:
    """Return the data that the scripts draw."""
    notes = run.ledger.notes
    until_ms = notes[-1].at_ms if notes else 0
    places = sorted(run.ledger.ends)
    marks, mark_ms = merge_marks(note.at_ms for note in notes if note.kind == "event")
    joins, span_ms = merge_marks(note.at_ms for note in notes if note.kind == "join")
    bars: list[list[int]] = []
    owners: dict[tuple[str, ...], int] = {}
    for row, place in enumerate(places[:PARTITIONS]):
        spans = ownership(notes, place)
        ends = [start_ms for start_ms, _ in spans[1:]] + [until_ms]
        for (start_ms, names), end_ms in zip(spans, ends, strict=True):
            number = owners.setdefault(tuple(sorted(names)), len(owners))
            bars.append([row, start_ms, end_ms, number])
    first = sorted({names[0] for names in owners if names})
    tints = {name: number % TINTS for number, name in enumerate(first)}
    return {
        "until_ms": until_ms,
        "partitions": [f"{topic}/{number}" for topic, number in places[:PARTITIONS]],
        "lanes": [
            {
                "design": "owners",
                "costs": costs(bars, owners, len(joins)),
                "owners": [shortened(names) for names in owners],
                "tints": [tints[names[0]] if names else 0 for names in owners],
                "bars": bars,
                "left_out": 0,
                "rebalances": {"marks": joins, "span_ms": span_ms},
            }
        ],
        "ops": [[note.at_ms, repr(note.details)] for note in notes if note.kind == "event"],
        "marks": marks,
        "mark_ms": mark_ms,
        "found": [[name, repr(item)] for name in FINDINGS for item in getattr(outcome, name)],
        "timeline": [
            [at_ms, clock(at_ms), member, text]
            for at_ms, member, text in rows_of(run.ledger, set(places))
        ],
        "left_out": {"partitions": max(0, len(places) - PARTITIONS)},
    }


def costs(
    bars: list[list[int]], owners: dict[tuple[str, ...], int], rebalances: int
) -> dict[str, float]:
    """Return what the lane's description says: seconds without an owner, and with several."""
    sizes = {number: len(names) for names, number in owners.items()}
    unowned = sum(end - start for _, start, end, number in bars if sizes[number] == 0)
    shared = sum(end - start for _, start, end, number in bars if sizes[number] > 1)
    return {
        "rebalances": rebalances,
        "unowned_seconds": unowned / 1000,
        "shared_seconds": shared / 1000,
    }
