"""The tables on a group's page, from questions of ``coterie.insight``: one registry.

A section asks one question of a partition and selects rows and fields. Rows are data, not HTML; the
page draws all sections in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.base.times import format_duration
from coterie.insight.question_engine import find_question, rows_of
from coterie.insight.questions import audit, expire, explain, lag
from coterie.insight.questions.explain_text import cause_of, summed, waited
from coterie.insight.questions.server_log_lines import BrokerLogLine
from coterie.insight.records.aggregates import Aggregate
from coterie.insight.records.partition_view import PartitionView, RecordFilter

EXACT = 1 << 53  # JavaScript's numbers are doubles
ROWS = 500  # of a section on a group's page, the last ones; of a ranked section, the first
Row = dict[str, Any]


@dataclass(frozen=True)
class Basis:
    """Inputs of the questions.

    The present time, the retention (ms), lines of brokers' logs, and end offsets if they are known.
    """

    now_ms: int
    retention_ms: int
    broker_log_lines: tuple[BrokerLogLine, ...] = ()
    lag: lag.Parameters | None = None


@dataclass(frozen=True)
class OverviewColumn:
    """A column of the overview that a section fills; the page formats it by its ``kind``."""

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
        Its name in the page's data.
    title, description : str
        Its heading, and the text below; ``{now}`` and ``{retention}`` are filled in.
    question : str
        The module of its question in ``coterie.insight.questions``.
    ask : callable
        Makes the question's ``Parameters`` from the basis.
    fields : dict
        Headings by field, in order.
    keep : callable
        Whether a row is shown.
    nothing : str
        The text in place of a table without rows.
    words : dict
        Texts of a field's values, by field.
    texts : dict
        Functions from a row to a text in place of the value, by field.
    column : OverviewColumn or None
        Its column of the overview, from a group's rows.
    ranked : bool
        Whether the most important rows come first; otherwise rows are ordered by time.
    """

    name: str
    title: str
    description: str
    question: str
    ask: Callable[[Basis], Any]
    fields: dict[str, str]
    keep: Callable[[Row], bool]
    nothing: str = "Nothing of that in the log."
    words: dict[str, Mapping[str, str]] = field(default_factory=dict)
    texts: dict[str, Callable[[Row], str | None]] = field(default_factory=dict)
    column: OverviewColumn | None = None
    ranked: bool = False

    def shown(self, rows: list[Any], limit: int) -> list[Any]:
        """Return the rows that are shown if there is a limit."""
        return rows[:limit] if self.ranked else rows[-limit:]

    @property
    def left_out(self) -> str:
        """The name of a row that is not shown."""
        return "less severe row" if self.ranked else "earlier row"


def next_expiry(rows: list[Row]) -> int | None:
    """Return when the first offset of a group expires, ms; None if none will."""
    times = [row["expires_at"] for row in rows if row["status"] != expire.REMOVED]
    return min((ms for ms in times if ms is not None), default=None)


def flapping(rows: list[Row]) -> int | None:
    """Return how many clients of a group flap; None if none does."""
    return len({row["cause"].partition(" is flapping")[0] for row in rows if is_flap(row)}) or None


def is_flap(row: Row) -> bool:
    """Return whether a row of ``explain`` is about a flapping client."""
    return bool(row["event"] == "flapping")


def known_lag(rows: list[Row]) -> int | None:
    """Return the lag of a group over the partitions whose lag is known; None if none is."""
    known = [row["lag"] for row in rows if row["lag"] is not None]
    return sum(known) if known else None


def unread_for(row: Row) -> str | None:
    """Return the least age of the first unread record, as text."""
    least_ms = row["lag_ms_min"]
    return None if least_ms is None else format_duration(least_ms)


SECTIONS = (
    Section(
        "causes",
        "Rebalances and their causes",
        "A line a record of the group, as far as the records tell, and the commits between. "
        "Without a server log, how long a rebalance took is known at most (<), and only where two "
        "records enclose it.",
        "explain",
        lambda basis: explain.Parameters(broker_log_lines=basis.broker_log_lines),
        {
            "timestamp": "Time",
            "generation": "Generation",
            "member_count": "Members",
            "event": "Event",
            "cause": "Cause",
            "duration_ms": "No assignment",
        },
        lambda row: row["event"] not in explain.SUMMARIES,
        texts={"cause": cause_of, "duration_ms": waited},
    ),
    Section(
        "clients",
        "Who has a part in them",
        "Clients that joined and left, and what comes back again and again.",
        "explain",
        lambda basis: explain.Parameters(broker_log_lines=basis.broker_log_lines),
        {
            "event": "What",
            "timestamp": "From",
            "until": "Until",
            "count": "Count",
            "cause": "Told",
        },
        lambda row: row["event"] in explain.SUMMARIES,
        texts={"cause": lambda row: summed(row) if row["event"] == "summary" else row["cause"]},
        column=OverviewColumn("flapping", "Flapping clients", "number", flapping),
    ),
    Section(
        "expiry",
        "Expiry of offsets",
        "Judged at {now} UTC under a retention of {retention}. A broker looks every ten minutes.",
        "expire",
        lambda basis: expire.Parameters(basis.now_ms, basis.retention_ms),
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
        "Findings of the audit, the most severe first: data lost or repeated, then no progress, "
        "then cost. Each has the record that shows it: its batch begins at the byte.",
        "audit",
        lambda basis: audit.Parameters(broker_log_lines=basis.broker_log_lines),
        {
            "timestamp": "Time",
            "kind": "Finding",
            "severity": "Severity",
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
        ranked=True,
        column=OverviewColumn("findings", "Findings", "number", len),
    ),
)


LAG = Section(
    "lag",
    "Lag",
    "Records that were not committed yet, as of the last sampled end offset of each partition.",
    "lag",
    lambda basis: basis.lag,
    {
        "topic": "Topic",
        "partition": "Partition",
        "time": "As of",
        "offset": "Committed",
        "end_offset": "End",
        "lag": "Lag",
        "lag_ms_min": "For at least",
        "status": "Status",
    },
    lambda row: True,
    words={"status": lag.STATUSES},
    texts={"lag_ms_min": unread_for},
    column=OverviewColumn("lag", "Lag", "number", known_lag),
)


def sections_of(basis: Basis) -> tuple[Section, ...]:
    """Return the sections of a page: the lag is one where end offsets are known."""
    return SECTIONS if basis.lag is None else (*SECTIONS, LAG)


def exact(value: Any) -> Any:
    """Return numbers that a double cannot hold as text, other values unchanged."""
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


def questions(basis: Basis) -> dict[str, Any]:
    """Return the ``Parameters`` of each question of the sections, by name."""
    return {section.question: section.ask(basis) for section in sections_of(basis)}


def aggregates_of_sections(
    view: PartitionView, basis: Basis
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    aggregates: dict[str, tuple[RecordFilter, Aggregate]] = {}
    for name, ask in questions(basis).items():
        question: Any = find_question(name)
        of_question = question.aggregates(view, ask)
        assert not of_question.keys() & aggregates.keys()  # names are unique
        aggregates.update(of_question)
    return aggregates


def tables_of(view: PartitionView, basis: Basis) -> dict[str, dict[str, Row]]:
    """Return rows as lists, and their number, by group and section.

    A question of several sections is answered once.
    """
    by_section: dict[str, dict[str, Row]] = {}
    for name, ask in questions(basis).items():
        by_group: dict[str, list[Row]] = {}
        for row in rows_of(view, find_question(name), ask):
            by_group.setdefault(row["group_id"], []).append(row)
        for group, rows in by_group.items():
            tables = by_section.setdefault(group, {})
            for section in sections_of(basis):
                selected = list(filter(section.keep, rows)) if section.question == name else []
                if selected:
                    tables[section.name] = table_of(section, selected)
    return by_section


def table_of(section: Section, rows: list[Row]) -> Row:
    """Return the table of a section, from a group's rows."""
    shown = section.shown(rows, ROWS)
    columns = (shown_column(section, name, shown) for name in section.fields)
    table: Row = {"rows": list(map(list, zip(*columns, strict=True))), "count": len(rows)}
    if section.column is not None:
        table["overview"] = section.column.of(rows)
    return table


def shown_column(section: Section, name: str, rows: list[Row]) -> list[Any]:
    if name in section.texts:
        return [section.texts[name](row) for row in rows]
    values = [row[name] for row in rows]
    if name in section.words:
        values = [section.words[name].get(value, value) for value in values]
    return [exact(value) if isinstance(value, int) else value for value in values]
