"""The text of ``/metrics``: that of ``coterie metrics``, and the families of a watcher alone.

``FAMILIES`` names the latter. Totals never fall, whatever the log loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from coterie.base.prometheus import label_text, text_lines
from coterie.live.group_counts import DEPARTURE_CAUSES
from coterie.live.totals import DEPARTURES, REBALANCES, REWINDS, Answer, Labels
from coterie.live.watcher import Health

NAMES = ("kafka_exporter", "braedon", "coterie")  # the default of `coterie metrics`
Sample = tuple[dict[str, Any], Any]


class Family(NamedTuple):
    """A metric of one group, from what is shown of its partition."""

    name: str
    kind: str
    help: str
    samples: Callable[[Answer, int], Iterable[Sample]]


def of_totals(
    kind: str, *labels: str, first: Callable[[Answer], set[Labels]] = lambda _: set()
) -> Callable[[Answer, int], Iterable[Sample]]:
    """Return a function that gives the samples of a total.

    ``first``: the labels that have a total of 0 before the first event: so a rule sees it rise.
    """

    def samples(answer: Answer, now_ms: int) -> Iterator[Sample]:
        counts = answer.totals[kind]
        for values in sorted({*counts, *first(answer)}):
            yield dict(zip(labels, values, strict=True)), counts[values]

    return samples


def groups_and_causes(answer: Answer) -> set[Labels]:
    groups = {row["group_id"] for row in answer.counted_rows}
    return set(product(groups, DEPARTURE_CAUSES))


def groups_and_topics(answer: Answer) -> set[Labels]:
    rows = answer.counted_rows
    return {(row["group_id"], row["topic"]) for row in rows if row["topic"] is not None}


def findings(answer: Answer, now_ms: int) -> Iterator[Sample]:
    for (group, kind), count in sorted(answer.findings.items()):
        yield {"consumergroup": group, "kind": kind}, count


def since_commit(answer: Answer, now_ms: int) -> Iterator[Sample]:
    """Yield the time since each group's last commit."""
    for row in answer.rows:
        if row["topic"] is None and row["commit_timestamp"] is not None:
            seconds = max(now_ms - row["commit_timestamp"], 0) / 1000
            yield {"consumergroup": row["group_id"]}, seconds


FAMILIES = (
    Family(
        *("coterie_consumergroup_rebalances_total", "counter", "Rebalances, by their cause"),
        of_totals(REBALANCES, "consumergroup", "cause"),
    ),
    Family(
        *("coterie_consumergroup_departures_total", "counter"),
        "Members that are gone, by how they seem to have left",
        of_totals(DEPARTURES, "consumergroup", "cause", first=groups_and_causes),
    ),
    Family(
        *("coterie_consumergroup_rewinds_total", "counter"),
        "Commits that go back behind the one before them",
        of_totals(REWINDS, "consumergroup", "topic", first=groups_and_topics),
    ),
    Family(
        *("coterie_consumergroup_findings", "gauge", "What coterie audit finds in the log"),
        findings,
    ),
    Family(
        *("coterie_consumergroup_seconds_since_commit", "gauge"),
        "Time since the last commit of a group",
        since_commit,
    ),
)


def own_families(health: Health, now_ms: int) -> Iterator[str]:
    values: Sequence[tuple[str, str, str, Any]] = (
        ("coterie_watch_steps_total", "counter", "Steps since the start", health.steps),
        (
            *("coterie_watch_behind_bytes", "gauge", "Bytes of the log that were not read"),
            health.behind_bytes,
        ),
        (
            *("coterie_watch_behind_offsets", "gauge"),
            "Offsets of the cluster that are not in its copy yet",
            health.behind_offsets,
        ),
        (
            *("coterie_watch_rebuilds_total", "counter"),
            "Partitions that were read anew, because what was read of them had changed",
            health.rebuilds,
        ),
        (
            *("coterie_watch_failures", "gauge", "Partitions that the last step could not read"),
            len(health.failures),
        ),
        (
            *("coterie_watch_newest_record_age_seconds", "gauge", "Age of the newest record"),
            None if health.newest_ms < 0 else max(now_ms - health.newest_ms, 0) / 1000,
        ),
    )
    for name, kind, text, value in values:
        if value is not None:
            yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} {value}\n"


def log_lines(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the lines of ``coterie metrics``."""
    return text_lines([row for answer in answers for row in answer.counted_rows], NAMES)


def watch_lines(answers: Sequence[Answer], health: Health, now_ms: int) -> Iterator[str]:
    """Yield the lines that only a watcher has; ``now_ms``: the present time."""
    for family in FAMILIES:
        head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        for answer in answers:
            for labels, value in family.samples(answer, now_ms):
                yield f"{head}{family.name}{{{label_text(labels)}}} {value}\n"
                head = ""
    yield from own_families(health, now_ms)
