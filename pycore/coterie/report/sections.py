"""The questions of ``coterie.insight`` that a group's page shows as tables: one registry.

A section puts one question to a partition's facts and keeps some of its rows and fields. Its rows
are data, not HTML; the page draws any section alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.insight.asking import find_question
from coterie.insight.brokerlogs.server_log import BrokerLogLine
from coterie.insight.questions import audit, expire, explain
from coterie.insight.questions.explain_text import cause_of, summed, waited
from coterie.insight.records.aggregates import Aggregate
from coterie.insight.records.log_parts import maker_of
from coterie.insight.records.partition_view import PartitionView, RecordFilter

EXACT = 1 << 53  # JavaScript's numbers are doubles
ROWS = 500  # of a section on a group's page; the last ones are kept
Row = dict[str, Any]


@dataclass(frozen=True)
class Basis:
    """What questions are asked with: when now is, a broker's retention (ms), what its logs say."""

    now_ms: int
    retention_ms: int
    told: tuple[BrokerLogLine, ...] = ()


@dataclass(frozen=True)
class OverviewColumn:
    """A column of the overview that a section fills: ``kind`` as the page formats it."""

    name: str
    label: str
    kind: str
    of: Callable[[list[Row]], Any]


@dataclass(frozen=True)
class Section:
    """A table on a group's page.

    Attributes
    ----------
    name : str
        In the page's data and addresses.
    title, told : str
        Its heading, and a sentence under it; ``{now}`` and ``{retention}`` are filled in.
    question : str
        The module of ``coterie.insight``.
    ask : callable
        Makes its ``Ask`` from the basis.
    fields : dict
        Field -> heading, in order.
    keep : callable
        Says of a row whether it is shown.
    nothing : str
        What stands there where no row is.
    words : dict
        Field -> what its values stand for.
    texts : dict
        Field -> what makes a text of the row, which stands there instead.
    column : OverviewColumn or None
        In the overview, from a group's rows.
    """

    name: str
    title: str
    told: str
    question: str
    ask: Callable[[Basis], Any]
    fields: dict[str, str]
    keep: Callable[[Row], bool]
    nothing: str = "Nothing of that in the log."
    words: dict[str, Mapping[str, str]] = field(default_factory=dict)
    texts: dict[str, Callable[[Row], str | None]] = field(default_factory=dict)
    column: OverviewColumn | None = None


OF_MANY = ("flapping", "client", "summary")


def next_expiry(rows: list[Row]) -> int | None:
    """Return when the first offset of a group goes, ms; None: none will, as things stand."""
    times = [row["expires_at"] for row in rows if row["status"] != expire.REMOVED]
    return min((ms for ms in times if ms is not None), default=None)


def flapping(rows: list[Row]) -> int | None:
    """Return how many clients of a group flap; None: none does."""
    return len({row["cause"].partition(" is flapping")[0] for row in rows if is_flap(row)}) or None


def is_flap(row: Row) -> bool:
    """Whether a row of ``explain`` tells of a client that flaps."""
    return bool(row["event"] == "flapping")


SECTIONS = (
    Section(
        "causes",
        "Rebalances and their causes",
        "A line a record of the group, as far as the records tell, and the commits between. "
        "Without a server log, how long a rebalance took is known at most (<), and only where two "
        "records enclose it.",
        "explain",
        lambda basis: explain.Ask(told=basis.told),
        {
            "timestamp": "Time",
            "generation": "Generation",
            "member_count": "Members",
            "event": "Event",
            "cause": "Cause",
            "duration_ms": "No assignment",
        },
        lambda row: row["event"] not in OF_MANY,
        texts={"cause": cause_of, "duration_ms": waited},
    ),
    Section(
        "clients",
        "Who has a part in them",
        "Clients that joined and left, and what comes back again and again.",
        "explain",
        lambda basis: explain.Ask(told=basis.told),
        {
            "event": "What",
            "timestamp": "From",
            "until": "Until",
            "count": "Count",
            "cause": "Told",
        },
        lambda row: row["event"] in OF_MANY,
        texts={"cause": lambda row: summed(row) if row["event"] == "summary" else row["cause"]},
        column=OverviewColumn("flapping", "Flapping clients", "number", flapping),
    ),
    Section(
        "expiry",
        "Expiry of offsets",
        "Judged at {now} UTC under a retention of {retention}. A broker looks every ten minutes.",
        "expire",
        lambda basis: expire.Ask(basis.now_ms, basis.retention_ms),
        {
            "topic": "Topic",
            "partition": "Partition",
            "status": "Status",
            "rule": "Rule",
            "since": "Counted from",
            "expires_at": "Expires",
            "remaining_ms": "In",
            "removed_at": "Removed",
        },
        lambda row: True,
        words={"rule": expire.RULES},
        column=OverviewColumn("next_expiry", "Next expiry (UTC)", "minute", next_expiry),
    ),
    Section(
        "findings",
        "What looks wrong",
        "Findings of the audit, each with the record that shows it: its batch begins at the byte.",
        "audit",
        lambda basis: audit.Ask(told=basis.told),
        {
            "timestamp": "Time",
            "kind": "Finding",
            "topic": "Topic",
            "partition": "Partition",
            "detail": "Detail",
            "count": "Records",
            "log_offset": "Log offset",
            "position": "Byte",
            "file": "File",
        },
        lambda row: True,
        nothing="The audit found nothing.",
        column=OverviewColumn("findings", "Findings", "number", len),
    ),
)


def exact(value: Any) -> Any:
    """Return a number that a double cannot hold as text, anything else as it is."""
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


def questions(basis: Basis) -> dict[str, Any]:
    """Return the name of each question that sections put, once, with what it is asked."""
    return {section.question: section.ask(basis) for section in SECTIONS}


def aggregates_of_sections(
    view: PartitionView, basis: Basis
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what all questions of a page keep while the log goes by."""
    found: dict[str, tuple[RecordFilter, Aggregate]] = {}
    for name, ask in questions(basis).items():
        make = maker_of(find_question(name))
        assert make is not None  # no question holds the records
        made = make(view, ask)
        assert not made.keys() & found.keys()  # they are found by these names
        found.update(made)
    return found


def tables_of(view: PartitionView, basis: Basis) -> dict[str, dict[str, Row]]:
    """Return group -> section -> its rows as lists, and how many there were.

    A question that several sections share is put once.
    """
    found: dict[str, dict[str, Row]] = {}
    for name, ask in questions(basis).items():
        by_group: dict[str, list[Row]] = {}
        for row in find_question(name).rows(view, ask):
            by_group.setdefault(row["group_id"], []).append(row)
        for group, rows in by_group.items():
            tables = found.setdefault(group, {})
            for section in SECTIONS:
                kept = list(filter(section.keep, rows)) if section.question == name else []
                if kept:
                    tables[section.name] = table_of(section, kept)
    return found


def table_of(section: Section, rows: list[Row]) -> Row:
    """Return what a section shows of a group's rows."""
    columns = (shown_column(section, name, rows[-ROWS:]) for name in section.fields)
    table: Row = {"rows": list(map(list, zip(*columns, strict=True))), "count": len(rows)}
    if section.column is not None:
        table["overview"] = section.column.of(rows)
    return table


def shown_column(section: Section, name: str, rows: list[Row]) -> list[Any]:
    """Return what a section shows in a field of rows."""
    if name in section.texts:
        return [section.texts[name](row) for row in rows]
    values = [row[name] for row in rows]
    if name in section.words:
        values = [section.words[name].get(value, value) for value in values]
    return [exact(value) if isinstance(value, int) else value for value in values]
