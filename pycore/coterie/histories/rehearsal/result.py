"""What a rehearsal shows: how well the play of the history fits the log, and each variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

from coterie.histories.rehearsal.history import Generation, LoggedHistory, count_rebalances
from coterie.histories.rehearsal.play import Play, Played
from coterie.histories.rehearsal.variants import KAFKA, Variant

HISTORY = "as it was"
RANGES = ("rebalances", "unowned_ms", "longest_unowned_ms", "settling_ms")
LOAD = ("requests", "records", "record_bytes")
FIELDS = {
    "group_id": "string",
    "variant": "string",  # "as it was": the history itself
    "kafka": "string",
    "protocol": "string",
    "plays": "int32",  # each draws anew what the log does not say
    **{f"{name}_{end}": "int64" for name in (*RANGES, *LOAD) for end in ("least", "most")},
    "refused": [{"error": "string", "count": "int64"}],  # clients that ended by an error, at most
    "in_log": "int64",  # rebalances of the log; null: of a variant
    "records_in_log": "int64",  # of the group: a static member that comes back writes one, too
    "same_members": "int64",  # of these the play had with the same members, in the same order
    "same_owners": "int64",  # and with the same partitions for each
    "unknown": [{"what": "string", "count": "int64"}],  # what the log does not say
}
Row = dict[str, Any]


def rehearse(
    history: LoggedHistory, variants: Iterable[Variant], *, kafka: str = KAFKA, plays: int = 3
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

    Raises
    ------
    ArgumentError
        A variant does not go with the history.
    """
    seeds = range(plays)
    changed = [(variant, variant.of(history)) for variant in variants]
    as_it_was = Variant(HISTORY, kafka)
    played = [_play(history, as_it_was, seed, ordered=True) for seed in seeds]
    fits = [_fit(history.generations, one.generations) for one in played]
    members, owners = max(fits)
    rows = [
        _row(history, as_it_was, played)
        | {
            "in_log": count_rebalances(history.generations),
            "records_in_log": len(history.generations),
            "same_members": members,
            "same_owners": owners,
            "unknown": [{"what": what, "count": n} for what, n in sorted(history.unknown.items())],
        }
    ]
    for variant, of_variant in changed:
        rows.append(_row(history, variant, [_play(of_variant, variant, seed) for seed in seeds]))
    return rows


def _play(history: LoggedHistory, variant: Variant, seed: int, *, ordered: bool = False) -> Played:
    return Play(
        history,
        kafka=variant.kafka,
        protocol=variant.protocol,
        settings=variant.settings,
        seed=seed,
        ordered=ordered,
    ).run()


def _row(history: LoggedHistory, variant: Variant, played: Sequence[Played]) -> Row:
    row: Row = dict.fromkeys(FIELDS)
    row |= {"group_id": history.group, "variant": variant.name, "kafka": variant.kafka}
    row |= {"protocol": variant.protocol, "plays": len(played), "unknown": []}
    for name in (*RANGES, *LOAD):
        values = [getattr(one, name) for one in played]
        row[f"{name}_least"], row[f"{name}_most"] = min(values), max(values)
    refused: Counter[str] = Counter()
    for one in played:
        refused |= one.refused
    row["refused"] = [{"error": error, "count": n} for error, n in sorted(refused.items())]
    return row


def _fit(log: Sequence[Generation], played: Sequence[Generation]) -> tuple[int, int]:
    """Return how many generations of a log a play had, by members, and by their partitions."""
    members = [[tuple(sorted(one.owners)) for one in side] for side in (log, played)]
    matcher = SequenceMatcher(a=members[0], b=members[1], autojunk=False)
    same = [
        log[a + i].owners == played[b + i].owners
        for a, b, size in matcher.get_matching_blocks()
        for i in range(size)
    ]
    return len(same), sum(same)
