"""The page of a rehearsal: the results, the moments that are worse, and who owned what when.

Each play that is shown has a lane, as a design has on the page of ``coterie designs``. The first
lane is that of the log: a member owns its assignment until the next generation. The amount that is
drawn is bounded for every history, and the page says how much is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coterie.base.times import format_time
from coterie.designs.bars import Bars, BarTotals
from coterie.designs.ownership import GroupPartition
from coterie.designs.page import SHOWN_OPS, began, chosen, lane_of, merge_marks, names_of
from coterie.histories.rehearsal.history import LoggedHistory, count_rebalances
from coterie.histories.rehearsal.moments import op_words
from coterie.histories.rehearsal.result import Outcome
from coterie.report import shell

SHOWN_MOMENTS = 200  # of a lane
Row = dict[str, Any]


def render(history: LoggedHistory, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the page of a rehearsal in pieces. The outcomes must have timelines.

    Raises
    ------
    CoterieError
        Jinja2 is missing; the message names the extra that installs it.
    """
    scripts = [
        shell.asset("coterie.designs", "page/lanes.js"),
        shell.asset("coterie.histories", "assets/rehearsal.js"),
    ]
    title = f"{history.group}: a rehearsal"
    subtitle = ", ".join(outcome.row["variant"] for outcome in outcomes)
    begin = format_time(history.origin_ms)
    basis = f"from the group's log, played in virtual time. Charts begin at {begin}; times are UTC."
    page = shell.Page(title, subtitle, "the results", basis, scripts, page_data(history, outcomes))
    return shell.render(page)


def page_data(history: LoggedHistory, outcomes: Sequence[Outcome]) -> Row:
    """Return the data that the scripts draw."""
    sources: list[_Log | _Play] = [_Log(history)]
    sources += [_Play(history, outcome) for outcome in outcomes]
    totals = {str(number): _bars(source).totals for number, source in enumerate(sources)}
    shown = chosen(totals)
    bars = [_bars(source, shown) for source in sources]
    lanes = [
        lane_of(source.name, one.bars, shown, source.rebalances(), source.costs(of_all.values()))
        | source.worse()
        for source, one, of_all in zip(sources, bars, totals.values(), strict=True)
    ]
    ops = history.ops
    marks, mark_ms = merge_marks(op["at"] for op in ops)
    places = {place for by_place in totals.values() for place in by_place}
    return {
        "until_ms": max(one.now_ms for one in bars),
        "partitions": names_of(shown),
        "lanes": lanes,
        "results": [outcome.row for outcome in outcomes],
        "moments": [
            {"variant": outcome.row["variant"], **moment}
            for outcome in outcomes
            for moment in outcome.row["moments"]
        ],
        "ops": [[op["at"], op_words(op)] for op in ops[:SHOWN_OPS]],
        "origin_ms": history.origin_ms,
        "marks": marks,
        "mark_ms": mark_ms,
        "left_out": {
            "partitions": len(places) - len(shown),
            "ops": max(0, len(ops) - SHOWN_OPS),
            "moments": sum(
                (outcome.row["worse_moments"] or 0) - len(outcome.row["moments"])
                for outcome in outcomes
            ),
        },
    }


def _bars(source: _Log | _Play, shown: Sequence[GroupPartition] = ()) -> Bars:
    bars = Bars(shown)
    source.follow(bars)
    bars.end()
    return bars


class _Log:
    """Whom the log assigns what: from each generation to the next."""

    name = "the log"

    def __init__(self, history: LoggedHistory) -> None:
        self._history = history

    def rebalances(self) -> Iterator[int]:
        """Yield when generations ended: when they began, a log does not say."""
        return (one.at for one in self._history.generations)

    def costs(self, totals: Iterable[BarTotals]) -> Row:
        rebalances = count_rebalances(self._history.generations)
        return {"rebalances": rebalances, "unowned_seconds": None, "shared_seconds": None}

    def worse(self) -> Row:
        return {}

    def follow(self, bars: Bars) -> None:
        group = self._history.group
        before: set[tuple[str, GroupPartition]] = set()
        for generation in self._history.generations:
            bars.now_ms = generation.at
            now = {
                (consumer, (group, topic, number))
                for consumer, owned in generation.owners.items()
                for topic, numbers in owned.items()
                for number in numbers
            }
            for consumer, place in sorted(before - now):
                bars.own(consumer, place, owns=False)
            for consumer, place in sorted(now - before):
                bars.own(consumer, place, owns=True)
            before = now
        bars.now_ms = self._history.end_ms


class _Play:
    """Who owned what in a play, and what had no owner."""

    def __init__(self, history: LoggedHistory, outcome: Outcome) -> None:
        self._history, self._outcome = history, outcome
        self._timeline = outcome.shown.timeline
        self.name: str = outcome.row["variant"]

    def rebalances(self) -> Iterator[int]:
        return began(self._timeline or ())

    def costs(self, totals: Iterable[BarTotals]) -> Row:
        played = self._outcome.shown
        return {
            "rebalances": played.rebalances,
            "unowned_seconds": played.unowned_ms / 1000,
            "shared_seconds": sum(one.shared_ms for one in totals) / 1000,
        }

    def worse(self) -> Row:
        """Return the spans of the moments that are worse, if any play is compared."""
        if self._outcome.row["worse_moments"] is None:
            return {}
        moments = (one.moment for one in self._outcome.worse[:SHOWN_MOMENTS])
        return {"worse": [[one.at, one.until, one.cause] for one in moments]}

    def follow(self, bars: Bars) -> None:
        for entry in self._timeline or ():
            bars.now_ms = entry.at_ms
            if entry.kind == "rebalance_began":
                continue
            topic, number = entry.details
            place = self._history.group, topic, number
            if entry.kind in ("owns", "gives_up"):
                bars.own(entry.consumer, place, owns=entry.kind == "owns")
            else:
                bars.count(place, counts=entry.kind == "unowned")
        bars.now_ms = max(bars.now_ms, self._history.end_ms)
