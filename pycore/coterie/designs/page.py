"""One page of a comparison: a lane for each design, costs, and what the scenario does.

How much is drawn is bounded, whatever the scenario: what is left out is counted and said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coterie.designs.bars import Bar, Bars, Seen
from coterie.designs.compare import Comparison
from coterie.designs.costs import COSTS
from coterie.designs.ownership import Place
from coterie.designs.scenario import OPS, Op
from coterie.pages import shell

SCRIPTS = ("lanes", "main")
PARTITIONS = 200  # those with most time with two owners, then without one, are shown
BARS = 20_000  # of a lane
MARKS = 400  # distinct moments of a row of marks; more are put together
SHOWN_OPS = 1_000
OWNERS = 10  # names of one bar
TINTS = 7
OP_NAMES = {kind: name for name, kind in OPS.items()}
Row = dict[str, Any]


def render(found: Comparison) -> Iterator[str]:
    """Yield the page of a comparison whose runs kept their timelines, in pieces.

    Raises
    ------
    CoterieError
        Jinja2 is missing: which extra brings it.
    """
    scripts = [shell.asset("coterie.designs", f"page/{name}.js") for name in SCRIPTS]
    title = f"{found.name}: one scenario, {len(found.runs)} designs"
    if len(found.runs) == 1:
        title = f"{found.name}: {next(iter(found.runs))}"
    basis = "from one scenario in virtual time. Times are the scenario's, in ms."
    subtitle = found.scenario.doc
    page = shell.Page(title, subtitle, "the costs", basis, scripts, page_data(found))
    return shell.render(page)


def page_data(found: Comparison) -> Row:
    """Return what the scripts draw."""
    ops = found.scenario.ops
    seen = {design: bars_of(found, design).seen for design in found.runs}
    shown = chosen(seen)
    marks, mark_ms = marked(op.at for op in ops)
    return {
        "until_ms": ops[-1].at if ops else 0,
        "partitions": named(shown),
        "lanes": [lane(found, design, shown) for design in found.runs],
        "costs": [
            {
                "name": name,
                "meaning": meaning,
                "values": [costs[name] for costs in found.costs.values()],
            }
            for name, meaning in COSTS.items()
        ],
        "ops": [[op.at, words(op)] for op in ops[:SHOWN_OPS]],
        "marks": marks,
        "mark_ms": mark_ms,
        "left_out": {
            "partitions": len({place for one in seen.values() for place in one}) - len(shown),
            "ops": max(0, len(ops) - SHOWN_OPS),
        },
    }


def bars_of(found: Comparison, design: str, places: Sequence[Place] = ()) -> Bars:
    """Go through a run."""
    bars = Bars(places)
    bars.go_through(found.scenario, found.runs[design].timeline)
    return bars


def chosen(seen: Mapping[str, Mapping[Place, Seen]]) -> list[Place]:
    """Return the partitions that there is room for, the same ones in each lane, in order."""
    places = {place for one in seen.values() for place in one}

    def of_all(place: Place, what: str) -> int:
        return sum(getattr(one[place], what) for one in seen.values() if place in one)

    def rank(place: Place) -> tuple[int, int, Place]:
        return -of_all(place, "shared_ms"), -of_all(place, "unowned_ms"), place

    kept: list[Place] = []
    room = dict.fromkeys(seen, BARS)
    for place in sorted(places, key=rank)[:PARTITIONS]:
        for design, one in seen.items():
            room[design] -= one[place].bars if place in one else 0
        if kept and min(room.values()) < 0:
            break
        kept.append(place)
    return sorted(kept)


def named(places: Sequence[Place]) -> list[str]:
    """Return the names of partitions, with their groups where there are several."""
    several = len({group for group, _, _ in places}) > 1
    return [
        f"{group} {topic}/{number}" if several else f"{topic}/{number}"
        for group, topic, number in places
    ]


def lane(found: Comparison, design: str, shown: Sequence[Place]) -> Row:
    """Return the lane of a design: bars as (row, from, until, number of its owners)."""
    bars = bars_of(found, design, shown).bars
    bars.sort(key=lambda bar: (bar.place, bar.start_ms))
    kept = bars if len(bars) <= BARS else newest(bars, BARS)
    rows = {place: row for row, place in enumerate(shown)}
    owners: dict[tuple[str, ...], int] = {}
    for bar in kept:
        owners.setdefault(bar.owners, len(owners))
    names = sorted({names[0] for names in owners if names})
    tints = {name: number % TINTS for number, name in enumerate(names)}
    timeline = found.runs[design].timeline
    began, span_ms = marked(one.at_ms for one in timeline if one.kind == "rebalance_began")
    return {
        "design": design,
        "costs": found.costs[design],
        "owners": [shortened(one) for one in owners],
        "tints": [tints[one[0]] if one else 0 for one in owners],
        "bars": [[rows[bar.place], bar.start_ms, bar.end_ms, owners[bar.owners]] for bar in kept],
        "left_out": len(bars) - len(kept),
        "rebalances": {"marks": began, "span_ms": span_ms},
    }


def newest(bars: Sequence[Bar], count: int) -> list[Bar]:
    """Return the bars that end last, in the order of all."""
    last = sorted(range(len(bars)), key=lambda index: bars[index].end_ms)[-count:]
    return [bars[index] for index in sorted(last)]


def shortened(owners: Sequence[str]) -> list[str]:
    """Return the names of owners, of many the first."""
    more = len(owners) - OWNERS
    return list(owners) if more <= 0 else [*owners[:OWNERS], f"and {more} more"]


def marked(moments: Iterable[int]) -> tuple[list[list[int]], int]:
    """Return (moment, how many) in order, and the span that one stands for: 1 ms if there is room.

    Of more than ``MARKS`` moments those of 2, 5, 10 … ms are put together.
    """
    counts: dict[int, int] = {}
    for at_ms in moments:
        counts[at_ms] = counts.get(at_ms, 0) + 1
    spans = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
    for span_ms in spans:
        if len({at_ms // span_ms for at_ms in counts}) <= MARKS:
            break
    found: dict[int, int] = {}
    for at_ms, count in counts.items():
        start_ms = at_ms // span_ms * span_ms
        found[start_ms] = found.get(start_ms, 0) + count
    return [[start_ms, found[start_ms]] for start_ms in sorted(found)], span_ms


def words(op: Op) -> str:
    """Return what an op does, as its file has it, without moment and defaults."""
    told = [OP_NAMES[type(op)]]
    for one in dataclasses.fields(op):
        value = getattr(op, one.name)
        if one.name not in ("at", "place") and value not in (None, "", False, {}):
            told.append(f"{one.name.rstrip('_')}={plain(value)}")
    return " ".join(told)


def plain(value: Any) -> str:
    """Return a field's value in words; of a topic's replicas how many partitions there are."""
    if isinstance(value, tuple):
        return f"{len(value)} partitions"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value)
