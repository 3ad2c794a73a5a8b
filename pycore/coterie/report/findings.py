"""The findings that the page of a log begins with: the most severe ones of all groups."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

from coterie.base.ordering import java_order
from coterie.insight.questions import audit
from coterie.report.sections import SECTIONS

SHOWN = 10
NAME = "findings"
(SECTION,) = (section for section in SECTIONS if section.name == NAME)
PLACE = {field: place for place, field in enumerate(SECTION.fields)}
SEVERITY_RANK = {severity: rank for rank, severity in enumerate(audit.SEVERITIES)}
KIND_RANK = {kind: rank for rank, kind in enumerate(audit.KINDS)}
Row = dict[str, Any]


class Findings:
    """The findings of each group: their number, and the rows of the most severe ones."""

    def __init__(self) -> None:
        self.of_groups: dict[str, tuple[int, list[list[Any]]]] = {}

    def add(self, group: str, tables: Row) -> None:
        table = tables.get(NAME)
        if table is not None:
            self.of_groups[group] = table["count"], table["rows"][:SHOWN]

    def drop(self, groups: Iterable[str]) -> None:
        for group in groups:
            self.of_groups.pop(group, None)

    def as_data(self) -> Row:
        """Return the number of all findings, and (group, row) of the most severe, in order."""
        rows = ((group, row) for group, (_, rows) in self.of_groups.items() for row in rows)
        counts = (count for count, _ in self.of_groups.values())
        return {"count": sum(counts), "rows": nsmallest(SHOWN, rows, key=rank)}


def rank(finding: tuple[str, list[Any]]) -> tuple[int, int, int, bytes]:
    """Return the place of a finding: by severity, kind, number of its records, and group."""
    group, row = finding
    ranks = SEVERITY_RANK[row[PLACE["severity"]]], KIND_RANK[row[PLACE["kind"]]]
    return *ranks, -int(row[PLACE["count"]]), java_order(group)
