"""What is shown of groups with records in several partitions: once, with the newest partition's.

The rows of a group come from its newest partition, those of offsets that only an older one has from
there; totals and findings are sums. See ``coterie.state.several_partitions``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from coterie._core.fold import fold as partial
from coterie.insight.questions.audit_partitions import SEVERAL_PARTITIONS
from coterie.live.totals import COMMITS, REBALANCES, SKIPPED, Answer, Row, plus
from coterie.state.several_partitions import Number, in_order, in_several, newest_ms, times_of

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold

SUMMED = (COMMITS, SKIPPED, REBALANCES)


def each_group_once(
    answers: Mapping[Number, Answer], folds: Mapping[Number, PartitionFold], count: int | None
) -> Iterable[Answer]:
    """Return the answers of partitions with each group in that of its newest.

    ``folds``: the last states of the partitions. ``count``: the number of the topic's partitions;
    None: not known.
    """
    groups = {n: {row["group_id"] for row in one.counted_rows} for n, one in answers.items()}
    several = in_several(groups)
    times = {n: newest_ms(fold) for n, fold in folds.items()} if several and not count else {}
    joined = dict(answers)
    for name, numbers in several.items():
        order = in_order(name, numbers, count, times_of(name, times))
        parts = [joined[number].only({name}) for number in order]
        for number in order:
            joined[number] = joined[number].without({name})
        newest = joined[order[-1]]
        fold = folds.get(order[-1])
        gone = {key for key in (() if fold is None else partial.keys(fold)) if key[0] == name}
        rows = rows_of([*(part.lost_rows for part in parts), *(part.rows for part in parts)], gone)
        is_lost = not any(part.rows for part in parts)
        totals, findings = newest.totals, newest.findings + Counter({(name, SEVERAL_PARTITIONS): 1})
        for part in parts:
            totals, findings = plus(totals, part.totals), findings + part.findings
        joined[order[-1]] = replace(
            newest,
            rows=newest.rows + ([] if is_lost else rows),
            lost_rows=[*newest.lost_rows, *(rows if is_lost else [])],
            totals=totals,
            findings=findings,
        )
    return joined.values()


def rows_of(parts: Sequence[Sequence[Row]], gone: set[tuple[str, str, int]]) -> list[Row]:
    """Return the rows of a group; ``parts``: what is lost, then of its partitions by age.

    ``gone``: the keys that the newest partition has a record of, perhaps a removal.
    """
    rows: dict[tuple[str, str | None, int | None], Row] = {}
    for number, part in enumerate(parts, 1):
        for row in part:
            key = row["group_id"], row["topic"], row["partition"]
            before = rows.get(key)
            rows[key] = dict(row)
            if before is not None:
                sums = {name: sum(one[name] or 0 for one in (before, row)) for name in SUMMED}
                rows[key] |= {name: n for name, n in sums.items() if row[name] is not None}
            elif number < len(parts) and key in gone:
                rows[key]["offset"] = None
    return sorted(rows.values(), key=lambda row: row["topic"] is not None)
