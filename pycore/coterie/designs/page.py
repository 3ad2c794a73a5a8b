"""The page of a comparison: a lane for each design, the costs, and the ops of the scenario.

The amount that is drawn is bounded for every scenario. The page says how much is left out.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coterie.designs.bars import Bars, BarTotals, PartitionBar
from coterie.designs.compare import Comparison
from coterie.designs.costs import COSTS
from coterie.designs.ops import OPS, Op
from coterie.designs.ownership import GroupPartition
from coterie.designs.timeline import Entry
from coterie.report import shell

SCRIPTS = ("lanes", "main")
PARTITIONS = 200  # those shared longest come first, then those without an owner longest
BARS = 20_000  # of a lane
MARKS = 400  # distinct times of a row of marks; more are merged
SHOWN_OPS = 1_000
OWNERS = 10  # named in one bar
TINTS = 7
OP_NAMES = {kind: name for name, kind in OPS.items()}
Row = dict[str, Any]


def render(comparison: Comparison) -> Iterator[str]:
    """Yield the page of a comparison in pieces. Its runs must have timelines.

    Raises
    ------
    CoterieError
        Jinja2 is missing; the message names the extra that installs it.
    """
    scripts = [shell.asset("coterie.designs", f"page/{name}.js") for name in SCRIPTS]
    title = f"{comparison.name}: one scenario, {len(comparison.runs)} designs"
    if len(comparison.runs) == 1:
        title = f"{comparison.name}: {next(iter(comparison.runs))}"
    times = "Times are the scenario's: minutes and seconds in charts, ms in tables."
    basis = f"from one scenario in virtual time. {times}"
    subtitle = comparison.scenario.doc
    page = shell.Page(title, subtitle, "the costs", basis, scripts, page_data(comparison))
    return shell.render(page)


def page_data(comparison: Comparison) -> Row:
    ops = comparison.scenario.ops
    totals = {design: bars_of(comparison, design).totals for design in comparison.runs}
    shown = chosen(totals)
    marks, mark_ms = merge_marks(op.at for op in ops)
    return {
        "until_ms": ops[-1].at if ops else 0,
        "partitions": names_of(shown),
        "lanes": [lane(comparison, design, shown) for design in comparison.runs],
        "costs": [
            {
                "name": name,
                "meaning": meaning,
                "values": [costs[name] for costs in comparison.costs.values()],
            }
            for name, meaning in COSTS.items()
        ],
        "ops": [[op.at, op_text(op)] for op in ops[:SHOWN_OPS]],
        "marks": marks,
        "mark_ms": mark_ms,
        "left_out": {
            "partitions": len({place for by_place in totals.values() for place in by_place})
            - len(shown),
            "ops": max(0, len(ops) - SHOWN_OPS),
        },
    }


def bars_of(comparison: Comparison, design: str, places: Sequence[GroupPartition] = ()) -> Bars:
    bars = Bars(places)
    bars.follow(comparison.scenario, comparison.runs[design].timeline)
    return bars


def chosen(totals: Mapping[str, Mapping[GroupPartition, BarTotals]]) -> list[GroupPartition]:
    """Return the partitions that are shown, the same ones in each lane, in order."""
    places = {place for by_place in totals.values() for place in by_place}

    def of_all(place: GroupPartition, field: str) -> int:
        lanes = (by_place[place] for by_place in totals.values() if place in by_place)
        return sum(getattr(lane_totals, field) for lane_totals in lanes)

    def rank(place: GroupPartition) -> tuple[int, int, GroupPartition]:
        return -of_all(place, "shared_ms"), -of_all(place, "unowned_ms"), place

    shown: list[GroupPartition] = []
    room = dict.fromkeys(totals, BARS)
    for place in sorted(places, key=rank)[:PARTITIONS]:
        for design, by_place in totals.items():
            room[design] -= by_place[place].bars if place in by_place else 0
        if shown and min(room.values()) < 0:
            break
        shown.append(place)
    return sorted(shown)


def names_of(places: Sequence[GroupPartition]) -> list[str]:
    """Return the names of partitions, with their groups if there are several groups."""
    several = len({group for group, _, _ in places}) > 1
    return [
        f"{group} {topic}/{number}" if several else f"{topic}/{number}"
        for group, topic, number in places
    ]


def lane(comparison: Comparison, design: str, shown: Sequence[GroupPartition]) -> Row:
    """Return the lane of a design."""
    timeline = comparison.runs[design].timeline
    bars = bars_of(comparison, design, shown).bars
    return lane_of(design, bars, shown, began(timeline), comparison.costs[design])


def began(timeline: Iterable[Entry]) -> Iterator[int]:
    """Yield when rebalances began."""
    return (entry.at_ms for entry in timeline if entry.kind == "rebalance_began")


def lane_of(
    name: str,
    bars: list[PartitionBar],
    shown: Sequence[GroupPartition],
    rebalances_ms: Iterable[int],
    costs: Mapping[str, Any],
) -> Row:
    """Return a lane; a bar is (row, from, until, number of its owners).

    ``costs`` has at least ``rebalances``, ``unowned_seconds`` and ``shared_seconds``.
    """
    bars.sort(key=lambda bar: (bar.place, bar.start_ms))
    drawn = bars if len(bars) <= BARS else newest(bars, BARS)
    rows = {place: row for row, place in enumerate(shown)}
    owners: dict[tuple[str, ...], int] = {}
    for bar in drawn:
        owners.setdefault(bar.owners, len(owners))
    first_names = sorted({names[0] for names in owners if names})
    tints = {name: number % TINTS for number, name in enumerate(first_names)}
    marks, span_ms = merge_marks(rebalances_ms)
    return {
        "design": name,
        "costs": costs,
        "owners": [shortened(names) for names in owners],
        "tints": [tints[names[0]] if names else 0 for names in owners],
        "bars": [[rows[bar.place], bar.start_ms, bar.end_ms, owners[bar.owners]] for bar in drawn],
        "left_out": len(bars) - len(drawn),
        "rebalances": {"marks": marks, "span_ms": span_ms},
    }


def newest(bars: Sequence[PartitionBar], count: int) -> list[PartitionBar]:
    """Return the ``count`` bars with the latest ends, in their present order."""
    last = sorted(range(len(bars)), key=lambda index: bars[index].end_ms)[-count:]
    return [bars[index] for index in sorted(last)]


def shortened(owners: Sequence[str]) -> list[str]:
    """Return the names of owners; of many, the first ones and the number of the others."""
    more = len(owners) - OWNERS
    return list(owners) if more <= 0 else [*owners[:OWNERS], f"and {more} more"]


def merge_marks(times_ms: Iterable[int]) -> tuple[list[list[int]], int]:
    """Return pairs of time and count in order, and the span (ms) of one mark.

    The span is 1 ms for up to ``MARKS`` times, otherwise the first of 2, 5, 10 … ms that leaves at
    most ``MARKS`` marks.
    """
    counts: dict[int, int] = {}
    for at_ms in times_ms:
        counts[at_ms] = counts.get(at_ms, 0) + 1
    spans = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    for span_ms in spans:
        if len({at_ms // span_ms for at_ms in counts}) <= MARKS:
            break
    merged: dict[int, int] = {}
    for at_ms, count in counts.items():
        start_ms = at_ms // span_ms * span_ms
        merged[start_ms] = merged.get(start_ms, 0) + count
    return [[start_ms, merged[start_ms]] for start_ms in sorted(merged)], span_ms


def op_text(op: Op) -> str:
    """Return an op as text: its name and fields, without its time and what is empty or false."""
    texts = [OP_NAMES[type(op)]]
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        is_empty = value is False or value in (None, "", {})
        if field.name not in ("at", "place") and not is_empty:
            texts.append(f"{field.name.rstrip('_')}={value_text(value)}")
    return " ".join(texts)


def value_text(value: Any) -> str:
    """Return a field's value as text; for replicas the number of partitions."""
    if isinstance(value, tuple):
        return f"{len(value)} partitions"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value)
