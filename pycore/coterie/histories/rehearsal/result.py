"""What a rehearsal shows: how well the play of the history fits the log, and each variant."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import itemgetter
from typing import Any

from coterie.histories.rehearsal.history import Generation, LoggedHistory, count_rebalances
from coterie.histories.rehearsal.known_bugs import described
from coterie.histories.rehearsal.moments import Worse, worse_moments
from coterie.histories.rehearsal.play import Play, Played
from coterie.histories.rehearsal.variants import KAFKA, Variant

HISTORY = "as it was"
RANGES = ("rebalances", "unowned_ms", "longest_unowned_ms", "settling_ms", "uncommitted")
LOAD = ("requests", "records", "record_bytes")
MOMENTS = 5  # of a variant, the worst
REFUSED = [{"error": "string", "count": "int64"}]
MOMENT = {
    "timestamp": "timestamp",
    "at_ms": "int64",  # since the begin of the scenario
    "cause": "string",  # what happened last before it
    "lasted_ms": "int64",
    "rebalances": "int64",
    "partitions": "int64",  # that had no owner in it
    "unowned_ms": "int64",
    "longest_unowned_ms": "int64",
    "refused": REFUSED,
    "lasted_more_ms": "int64",  # more than in any play of the history
    "unowned_more_ms": "int64",
    "longest_unowned_more_ms": "int64",
    "refused_more": "int64",
}
FINDING = {
    "ticket": "string",
    "releases": "string",
    "when": "string",
    "what": "string",
    "timestamp": "timestamp",  # the first time, in any play
    "at_ms": "int64",
    "count": "int64",  # in one play, at most
}
FIELDS = {
    "group_id": "string",
    "variant": "string",  # "as it was": the history itself
    "kafka": "string",
    "protocol": "string",
    "plays": "int32",  # each draws anew what the log does not say
    **{f"{name}_{end}": "int64" for name in (*RANGES, *LOAD) for end in ("least", "most")},
    "read_again_most": "int64",  # records of uncommitted partitions; null: the log has no commits
    "unbounded_most": "int64",  # of these partitions, those for which the log has no bound
    "refused": REFUSED,  # clients that ended by an error, at most
    "in_log": "int64",  # rebalances of the log; null: of a variant
    "records_in_log": "int64",  # of the group: a static member that comes back writes one, too
    "same_members": "int64",  # of these the play had with the same members, in the same order
    "same_owners": "int64",  # and with the same partitions for each
    "unknown": [{"what": "string", "count": "int64"}],  # what the log does not say
    "worse_moments": "int64",  # than in the history, in the worst play; null: of the history
    "moments": [MOMENT],  # the worst of these
    "findings": [FINDING],  # known bugs of releases that struck
    "cut_at": "timestamp",  # a play ended here, since the group does not settle; null: none did
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of the plays of a variant, or of the history itself.

    Attributes
    ----------
    row : dict
        Of ``FIELDS``.
    shown : Played
        Of the history, the play that fits best; of a variant, the worst: with the most clients that
        ended by an error, then the most time without owners.
    worse : list of Worse
        Its moments that are worse than in the history, the worst first.
    """

    row: Row
    shown: Played
    worse: list[Worse]


def rehearse(
    history: LoggedHistory,
    variants: Iterable[Variant],
    *,
    kafka: str = KAFKA,
    plays: int = 3,
    moments: int = MOMENTS,
) -> list[Row]:
    """Play a history as it was, then under each variant; return a row for each.

    Parameters
    ----------
    history : LoggedHistory
        As :func:`coterie.histories.rehearsal.history.read_history` returns it.
    variants : iterable of Variant
        What it is played under.
    kafka : str
        The release that wrote the log.
    plays : int
        How often each is played, with another seed each time.
    moments : int
        At most so many moments of a variant, the worst.

    Raises
    ------
    ArgumentError
        A variant does not go with the history.
    """
    found = outcomes(history, variants, kafka=kafka, plays=plays, moments=moments)
    return [outcome.row for outcome in found]


def outcomes(
    history: LoggedHistory,
    variants: Iterable[Variant],
    *,
    kafka: str = KAFKA,
    plays: int = 3,
    moments: int = MOMENTS,
    timelines: bool = False,
    on_play: Callable[[], object] = lambda: None,
) -> Iterator[Outcome]:
    """Play as :func:`rehearse` does; yield what came out, the history's own first.

    ``timelines``: whether each ``shown`` has its timeline; ``on_play``: called after each play, of
    which there are :func:`play_count`.
    """
    changed = [(variant, variant.of(history)) for variant in variants]
    as_it_was = Variant(HISTORY, kafka)

    def fit(played: Played) -> tuple[int, int]:
        return _fit(history.generations, played.generations)

    own, (members, owners), best = _plays(
        history, as_it_was, fit, on_play, plays=plays, timelines=timelines, ordered=True
    )
    if changed:  # variants wait for no generation of the log: so the history must not, to compare
        own += _plays(history, as_it_was, _harm, on_play, plays=plays, timelines=False)[0]
    row = _row(history, as_it_was, own) | {
        "in_log": count_rebalances(history.generations),
        "records_in_log": len(history.generations),
        "same_members": members,
        "same_owners": owners,
        "unknown": [{"what": what, "count": n} for what, n in sorted(history.unknown.items())],
    }
    yield Outcome(row, best, [])
    for variant, of_variant in changed:
        played, _, worst = _plays(
            of_variant, variant, _harm, on_play, plays=plays, timelines=timelines
        )
        worse = worse_moments(worst.moments, [one.moments for one in own])
        row = _row(history, variant, played)
        row["worse_moments"] = len(worse)
        row["moments"] = [_moment(history, one) for one in worse[:moments]]
        yield Outcome(row, worst, worse)


def play_count(variants: Sequence[Variant], plays: int) -> int:
    """Return how often a history is played: as it was in two ways, and under each variant."""
    return plays * (2 + len(variants) if variants else 1)


def _harm(played: Played) -> tuple[int, int]:
    return played.refused.total(), played.unowned_ms


def _plays(
    history: LoggedHistory,
    variant: Variant,
    rank: Callable[[Played], tuple[int, int]],
    on_play: Callable[[], object],
    *,
    plays: int,
    timelines: bool,
    ordered: bool = False,
) -> tuple[list[Played], tuple[int, int], Played]:
    """Return all plays, the highest rank, and the first play of that rank.

    Only that one keeps its timeline, and none keeps its generations, which are as large as the log.
    """
    played: list[Played] = []
    ranks: list[tuple[int, int]] = []
    for seed in range(plays):
        one = Play(
            history,
            brokers=variant.first_brokers,
            seed=seed,
            ordered=ordered,
            timeline=timelines,
        ).run()
        ranks.append(rank(one))
        played.append(one)
        one.generations.clear()
        first = ranks.index(max(ranks))
        for number, other in enumerate(played):
            if number != first:
                other.timeline = None
        on_play()
    return played, max(ranks), played[ranks.index(max(ranks))]


def _moment(history: LoggedHistory, worse: Worse) -> Row:
    moment = worse.moment
    return {
        "timestamp": history.origin_ms + moment.at,
        "at_ms": moment.at,
        "cause": moment.cause,
        "lasted_ms": moment.lasted_ms,
        "rebalances": moment.rebalances,
        "partitions": moment.partitions,
        "unowned_ms": moment.unowned_ms,
        "longest_unowned_ms": moment.longest_ms,
        "refused": _errors(moment.refused),
        "lasted_more_ms": worse.lasted_more_ms,
        "unowned_more_ms": worse.unowned_more_ms,
        "longest_unowned_more_ms": worse.longest_more_ms,
        "refused_more": worse.refused.total(),
    }


def _errors(refused: Counter[str]) -> list[Row]:
    return [{"error": error, "count": count} for error, count in sorted(refused.items())]


def _findings(history: LoggedHistory, played: Sequence[Played]) -> list[Row]:
    """Return the known bugs that struck, by the first time of each."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for one in played:
        counts |= Counter(found.ticket for found in one.findings)
        for found in one.findings:
            first[found.ticket] = min(found.at, first.get(found.ticket, found.at))
    names = "releases", "when", "what"
    return [
        {"ticket": ticket, **dict(zip(names, described(ticket), strict=True))}
        | {"timestamp": history.origin_ms + at, "at_ms": at, "count": counts[ticket]}
        for ticket, at in sorted(first.items(), key=itemgetter(1))
    ]


def _row(history: LoggedHistory, variant: Variant, played: Sequence[Played]) -> Row:
    row: Row = dict.fromkeys(FIELDS)
    row |= {"group_id": history.group, "variant": variant.name, "kafka": variant.kafka}
    row |= {
        "protocol": variant.protocol or history.protocol,
        "plays": len(played),
        "unknown": [],
        "moments": [],
    }
    for name in (*RANGES, *LOAD):
        values = [getattr(one, name) for one in played]
        row[f"{name}_least"], row[f"{name}_most"] = min(values), max(values)
    if history.commits:
        row["read_again_most"] = max(one.read_again for one in played)
    row["unbounded_most"] = max(one.unbounded for one in played)
    refused: Counter[str] = Counter()
    for one in played:
        refused |= one.refused
    row["refused"] = _errors(refused)
    row["findings"] = _findings(history, played)
    cuts = [one.cut_ms for one in played if one.cut_ms is not None]
    row["cut_at"] = history.origin_ms + min(cuts) if cuts else None
    return row


def _fit(log: Sequence[Generation], played: Sequence[Generation]) -> tuple[int, int]:
    """Return how many generations of a log a play had, by members, and by their partitions."""
    members = [[tuple(sorted(one.owners)) for one in side] for side in (log, played)]
    # A matcher takes the square of the length, so it gets only what lies between equal ends.
    begin = _equal_pairs(*members)
    rest = [side[begin:] for side in members]
    end = _equal_pairs(*map(reversed, rest))
    one, other = (side[: len(side) - end] for side in rest)
    blocks = SequenceMatcher(a=one, b=other, autojunk=False).get_matching_blocks()
    pairs = [
        *zip(log[:begin], played[:begin], strict=True),
        *zip(log[len(log) - end :], played[len(played) - end :], strict=True),
    ]
    for a, b, size in blocks:
        of_log, of_play = (
            side[begin + at : begin + at + size] for side, at in ((log, a), (played, b))
        )
        pairs += zip(of_log, of_play, strict=True)
    return len(pairs), sum(logged.owners == own.owners for logged, own in pairs)


def _equal_pairs(one: Iterable[object], other: Iterable[object]) -> int:
    """Return how many pairs of two sequences are equal before the first that is not."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
