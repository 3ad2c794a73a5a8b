"""The page of a log: the data that its scripts draw. ``coterie.report`` makes the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.base.times import format_duration, format_time
from coterie.insight.question_engine import find_question
from coterie.insight.questions.audit import SEVERITIES
from coterie.report import shell
from coterie.report.gather import OVERVIEW, Gathered
from coterie.report.sections import Basis, Section, sections_of

SCRIPTS = ("data", "lines", "ownership", "findings", "overview", "group", "main")
KINDS = {"timestamp": "time", "int32": "number", "int64": "number", "double": "number"}
Row = dict[str, Any]


def render(whole: Gathered, title: str, subtitle: str, basis: Basis) -> Iterator[str]:
    """Yield the page in pieces.

    Raises
    ------
    CoterieError
        Jinja2 is missing; the message names the extra that installs it.
    """
    scripts = [shell.asset("coterie.report", f"page/{name}.js") for name in SCRIPTS]
    data = page_data(whole, title, basis)
    footer = "from the log alone. Times are UTC."
    return shell.render(shell.Page(title, subtitle, "the groups", footer, scripts, data))


def page_data(whole: Gathered, title: str, basis: Basis) -> Row:
    pairs = list(whole.in_order())
    sections = sections_of(basis)
    columns = [section.column for section in sections if section.column is not None]
    span_ms = max(whole.commits.span_ms, whole.rebalances.span_ms)
    fields = ("records", "faults", "partitions", "from_ms", "until_ms", "compacted")
    return {
        "title": title,
        "log": {name: getattr(whole, name) for name in fields}
        | {"clock_notes": list(whole.clocks.notes())},
        "columns": [*OVERVIEW, *(column.name for column in columns)],
        "groups": [row for row, _ in pairs],
        "details": [detail for _, detail in pairs],
        "topics": list(whole.topics),
        "counted": [
            {"name": column.name, "label": column.label, "kind": column.kind} for column in columns
        ],
        "commits": whole.commits.as_data(span_ms),
        "rebalances": whole.rebalances.as_data(span_ms),
        "findings": whole.findings.as_data(),
        "severities": SEVERITIES,
        "sections": [section_data(section, basis) for section in sections],
    }


def section_data(section: Section, basis: Basis) -> Row:
    """Return the texts and columns of a section, the same for every group."""
    kinds = find_question(section.question).FIELDS
    return {
        "name": section.name,
        "title": section.title,
        "description": section.description.format(
            now=format_time(basis.now_ms).rstrip("Z").replace("T", " "),
            retention=format_duration(basis.retention_ms),
        ),
        "nothing": section.nothing,
        "left_out": section.left_out,
        "columns": [
            {
                "name": name,
                "label": label,
                "kind": "text" if name in section.texts else kind_of(name, kinds[name]),
            }
            for name, label in section.fields.items()
        ],
    }


def kind_of(name: str, kind: Any) -> str:
    """Return the kind of a field, by which the page formats it."""
    return "duration" if name.endswith("_ms") else KINDS.get(kind, "text")
