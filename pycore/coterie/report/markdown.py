"""The summary of a report as Markdown, to paste into an incident's document.

It uses the data of the page: the overview, and the timeline and findings of selected groups. Text
from the log is escaped.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from coterie.base.printable import printable
from coterie.base.times import format_duration, format_time
from coterie.insight.groups.causes import counted
from coterie.insight.tables import shortened
from coterie.report.gather import OVERVIEW, Gathered
from coterie.report.page import section_data
from coterie.report.sections import Basis, Section, sections_of

ROWS = 100  # of a table, the last ones
SECTIONS_SHOWN = ("causes", "clients", "findings", "lag")
HEADS = {
    "group": "Group",
    "state": "State",
    "members": "Members",
    "rebalances": "Rebalances",
    "requests": "Commits",
    "commits": "Offsets committed",
    "last_commit": "Last commit (UTC)",
    "lag": "Lag",
    "flapping": "Flapping clients",
    "findings": "Findings",
}
NONE = "-"
MARKUP = re.compile(r"([\\`*_\[\]<>|#~&])")
Row = dict[str, Any]


def render(
    whole: Gathered, title: str, subtitle: str, basis: Basis, named: bool = False
) -> Iterator[str]:
    """Yield the summary in pieces.

    ``named``: whether groups were named. Then all of them get a part of their own, otherwise only
    those with findings or flapping clients.
    """
    filled = [one.column for one in sections_of(basis) if one.column is not None]
    columns = [*OVERVIEW, *(column.name for column in filled)]
    heads = {name: head for name, head in HEADS.items() if name in columns}
    groups = [(dict(zip(columns, row, strict=True)), detail) for row, detail in whole.in_order()]
    yield f"# {escaped(title)}\n\n{escaped(subtitle)}.\n"
    yield from log_lines(whole)
    yield "\n## Groups\n\n"
    yield from table(
        heads.values(), ([shown(name, row[name]) for name in heads] for row, _ in groups)
    )
    chosen = [pair for pair in groups if named or pair[0]["findings"] or pair[0]["flapping"]]
    if len(chosen) < len(groups):
        yield "\nOnly groups with findings follow; `--group` adds another.\n"
    for row, packed in chosen:
        detail = json.loads(zlib.decompress(base64.b64decode(packed)))
        yield from group_lines(row["group"], detail, basis)


def log_lines(whole: Gathered) -> Iterator[str]:
    """Yield the extent of the log, and since when it can be trusted."""
    times = [NONE if ms is None else format_time(ms) for ms in (whole.from_ms, whole.until_ms)]
    yield (
        f"\n{whole.records:,} records of {whole.partitions:,} partitions of the topic, "
        f"{times[0]} to {times[1]}. Times are UTC.\n"
    )
    for number, since_ms in whole.compacted:
        name = "The partition" if number is None else f"__consumer_offsets-{number}"
        yield (
            f"\n> **Compacted:** {escaped(name)} is whole since {format_time(since_ms)}. "
            "Rebalances and commits are counted since then; what is told of before is true, but "
            "may not be all.\n"
        )
    for note in whole.clocks.notes():
        yield f"\n> **A clock went back:** {note}.\n"
    if whole.faults:
        yield f"\n> {whole.faults:,} corrupt places were left out; `coterie verify` lists them.\n"


def group_lines(group: str, detail: Row, basis: Basis) -> Iterator[str]:
    head = detail["head"]
    since = head["trusted_from_ms"]
    yield f"\n## Group {escaped(shortened(group))}\n"
    facts = [f"{head['state']}, {counted(head['members'], 'member')}"]
    if head.get("protocol"):
        facts.append(f"protocol {escaped(head['protocol'])}")
    if since is not None:
        facts.append(f"trusted since {format_time(since)}")
    yield f"\n{'; '.join(facts)}.\n"
    for section in sections_of(basis):
        if section.name in SECTIONS_SHOWN:
            section_table = detail["tables"].get(section.name, {"rows": [], "count": 0})
            yield from section_lines(section, section_table, since, basis)


def section_lines(section: Section, data: Row, since: int | None, basis: Basis) -> Iterator[str]:
    columns = section_data(section, basis)["columns"]
    yield f"\n### {section.title}\n\n"
    if not data["count"]:
        limit = "" if since is None else f" That holds since {format_time(since)}."
        yield f"{section.nothing}{limit}\n"
        return
    rows = section.shown(data["rows"], ROWS)
    if len(rows) < data["count"]:
        yield f"{data['count'] - len(rows):,} {section.left_out}s are left out.\n\n"
    kinds = [FORMATS[column["kind"]] for column in columns]
    yield from table(
        (column["label"] for column in columns),
        ([kind(value) for kind, value in zip(kinds, row, strict=True)] for row in rows),
    )


def table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; cells must be escaped."""
    names = list(heads)
    yield f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


def shown(name: str, value: Any) -> str:
    if name == "group":
        return escaped(shortened(value)) or "(empty id)"
    return FORMATS["time" if name == "last_commit" else "text"](value)


def text(value: Any) -> str:
    return NONE if value is None or value == "" else escaped(str(value))


def escaped(plain: str) -> str:
    return MARKUP.sub(r"\\\1", printable(plain))


def time(ms: int | None) -> str:
    return NONE if ms is None else format_time(ms)


def duration(ms: int | None) -> str:
    return NONE if ms is None else format_duration(ms)


FORMATS: dict[str, Callable[[Any], str]] = {
    "text": text,
    "number": text,
    "time": time,
    "duration": duration,
}
