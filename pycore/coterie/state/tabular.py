"""Print rows of a view exactly as Kafka's tools do, or as JSON and CSV.

There are two styles: Kafka 3.9's and 4.1's (KIP-1099: epochs, assignments by topic name). Widths
are counted in UTF-16 units, as in Java. Values that only a broker knows are printed as a dash.
Sources: ConsumerGroupCommand (3.9.1, 4.1.0), ShareGroupCommand (4.4.0), StreamsGroupCommand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.base import csvrows
from coterie.base.ordering import java_order
from coterie.base.printable import printable
from coterie.base.times import format_time
from coterie.log.connect_protocol import CONNECT
from coterie.state.assignments import Assignment
from coterie.state.group_views import Row

MISSING = "-"
NARROW = 15  # Kafka's least width of a column that grows


class TableStyle(NamedTuple):
    kind: str
    view: str
    old: bool  # as Kafka 3.9 draws it
    verbose: bool
    share_lag: bool = False  # as Kafka draws share groups since 4.2, which counts their lag


class Drawn(NamedTuple):
    """A table: the text before, the headings and the cells of each line, the columns' widths."""

    before: str
    lines: list[list[str]]
    widths: list[int]

    @property
    def text(self) -> str:
        return self.before + "".join(
            " ".join(map(_pad, line, self.widths)) + "\n" for line in self.lines
        )


class TableColumn(NamedTuple):
    """A column: its heading, the row's field, least width (0: as wide as the text)."""

    heading: str
    field: str
    width: int = 0
    grows: bool = False


GROUP = TableColumn("GROUP", "group", NARROW, True)
TOPIC = TableColumn("TOPIC", "topic", NARROW, True)
PARTITION = TableColumn("PARTITION", "partition", 10)
CONSUMER_ID = TableColumn("CONSUMER-ID", "consumer_id", NARROW, True)
HOST = TableColumn("HOST", "host", NARROW, True)
CLIENT_ID = TableColumn("CLIENT-ID", "client_id", NARROW, True)
COORDINATOR = TableColumn("COORDINATOR (ID)", "coordinator", 25, True)
LEADER_EPOCH = TableColumn("LEADER-EPOCH", "leader_epoch", NARROW)
CURRENT_OFFSET = TableColumn("CURRENT-OFFSET", "current_offset", NARROW)
LOG_END_OFFSET = TableColumn("LOG-END-OFFSET", "log_end_offset", NARROW)
MEMBERS = TableColumn("#MEMBERS", "members")
OPEN_TRANSACTION = (
    GROUP,
    TableColumn("PRODUCER-ID", "producer_id", 11),
    TableColumn("SINCE", "since", 24),
    TOPIC,
    PARTITION,
    CURRENT_OFFSET,
    TableColumn("PENDING-OFFSET", "pending_offset"),
)
UNRECONCILED = (
    GROUP,
    CONSUMER_ID,
    TableColumn("MEMBER-STATE", "member_state", 21),
    TableColumn("CURRENT-EPOCH", "current_epoch", NARROW),
    TableColumn("TARGET-EPOCH", "target_epoch", NARROW),
    TableColumn("CURRENT-ASSIGNMENT", "current_assignment", 20, True),
    TableColumn("TO-GIVE-UP", "pending_revocation", NARROW, True),
    TableColumn("TARGET-ASSIGNMENT", "target_assignment"),
)


def columns(style: TableStyle, rows: Sequence[Row]) -> list[TableColumn]:
    """Return the columns of a table over the rows of one group."""
    make = {"consumer": _consumer, "share": _share, "streams": _streams, CONNECT: _workers}
    return make[style.kind](style, rows)


def _consumer(style: TableStyle, rows: Sequence[Row]) -> list[TableColumn]:
    verbose = style.verbose and not style.old
    if style.view == "offsets":
        selected = [
            GROUP,
            TOPIC,
            PARTITION,
            *([LEADER_EPOCH] if verbose else []),
            CURRENT_OFFSET,
        ]
        selected += [LOG_END_OFFSET, TableColumn("LAG", "lag", NARROW), CONSUMER_ID, HOST]
        return [*selected, TableColumn("CLIENT-ID", "client_id")]
    if style.view == "state":
        # 3.9 uses the coordinator's width for the group too, and neither grows.
        group = TableColumn("GROUP", "group", 25) if style.old else GROUP
        selected = [
            group,
            COORDINATOR,
            TableColumn("ASSIGNMENT-STRATEGY", "assignment_strategy", 20),
        ]
        selected.append(TableColumn("STATE", "state", 15 if style.old else 20))
        if verbose:
            selected.append(TableColumn("GROUP-EPOCH", "group_epoch", NARROW))
            selected.append(TableColumn("TARGET-ASSIGNMENT-EPOCH", "target_assignment_epoch", 25))
        return [*selected, MEMBERS]
    selected = [GROUP, CONSUMER_ID]
    if any(row["group_instance_id"] for row in rows):
        selected.append(TableColumn("GROUP-INSTANCE-ID", "group_instance_id", 17, True))
    selected += [HOST, CLIENT_ID, TableColumn("#PARTITIONS", "partitions", NARROW)]
    if not style.verbose:
        return [*selected, TableColumn("", "")]
    if style.old:
        return [*selected, TableColumn("ASSIGNMENT", "current_assignment")]
    selected.append(TableColumn("CURRENT-EPOCH", "current_epoch", NARROW))
    selected.append(TableColumn("CURRENT-ASSIGNMENT", "current_assignment", 20, True))
    selected.append(TableColumn("TARGET-EPOCH", "target_epoch", NARROW))
    selected.append(TableColumn("TARGET-ASSIGNMENT", "target_assignment", 20, True))
    if {row["upgraded"] for row in rows} >= {True, False}:
        selected.append(TableColumn("UPGRADED", "upgraded"))
    return selected


def _share(style: TableStyle, rows: Sequence[Row]) -> list[TableColumn]:
    if style.view == "offsets":
        epoch = [TableColumn("LEADER-EPOCH", "leader_epoch", 13)] if style.verbose else []
        lag = [TableColumn("LAG", "lag")] if style.share_lag else []
        start = TableColumn("START-OFFSET", "start_offset", 13 if lag else 0)
        return [GROUP, TOPIC, PARTITION, *epoch, start, *lag]
    if style.view == "state":
        epochs = [
            TableColumn("GROUP-EPOCH", "group_epoch", 12),
            TableColumn("ASSIGNMENT-EPOCH", "assignment_epoch", 17),
        ]
        state = TableColumn("STATE", "state", NARROW)
        return [GROUP, COORDINATOR, state, *(epochs if style.verbose else []), MEMBERS]
    epoch = [TableColumn("MEMBER-EPOCH", "member_epoch", 13)] if style.verbose else []
    selected = [
        GROUP,
        CONSUMER_ID,
        HOST,
        CLIENT_ID,
        TableColumn("#PARTITIONS", "partitions", 12),
    ]
    return [*selected, *epoch, TableColumn("ASSIGNMENT", "assignment")]


def _streams(style: TableStyle, rows: Sequence[Row]) -> list[TableColumn]:
    if style.view == "offsets":
        lag = TableColumn("OFFSET-LAG", "lag")
        if not style.verbose:
            return [GROUP, TOPIC, PARTITION, lag]
        return [GROUP, TOPIC, PARTITION, CURRENT_OFFSET, LEADER_EPOCH, LOG_END_OFFSET, lag]
    if style.view == "state":
        epochs = [
            TableColumn("GROUP-EPOCH", "group_epoch", NARROW),
            TableColumn("TARGET-ASSIGNMENT-EPOCH", "assignment_epoch", 25),
        ]
        state = TableColumn("STATE", "state", 25)
        return [GROUP, COORDINATOR, state, *(epochs if style.verbose else []), MEMBERS]
    member = TableColumn("MEMBER", "member", NARROW, True)
    tail = [TableColumn("PROCESS", "process", NARROW, True), CLIENT_ID]
    if not style.verbose:
        return [GROUP, member, *tail, TableColumn("ASSIGNMENTS", "assignments")]
    return [
        GROUP,
        TableColumn("TARGET-ASSIGNMENT-EPOCH", "target_assignment_epoch", 25),
        TableColumn("TOPOLOGY-EPOCH", "topology_epoch", NARROW),
        member,
        TableColumn("MEMBER-PROTOCOL", "member_protocol", NARROW),
        TableColumn("MEMBER-EPOCH", "member_epoch", NARROW),
        *tail,
        TableColumn("ASSIGNMENTS", "all_assignments"),
    ]


def _workers(style: TableStyle, rows: Sequence[Row]) -> list[TableColumn]:
    offsets = [
        TableColumn("CONFIG-OFFSET", "config_offset", NARROW),
        TableColumn("ASSIGNED-AT", "assigned_config_offset", 12),
    ]
    return [
        *(GROUP, CONSUMER_ID, HOST, CLIENT_ID),
        TableColumn("URL", "url", NARROW, True),
        TableColumn("LEADER", "leader", 7),
        *(offsets if style.verbose else offsets[:1]),
        TableColumn("DELAY-MS", "delay_ms", 9),
        TableColumn("CONNECTORS", "connectors", NARROW, True),
        TableColumn("TASKS", "tasks"),
    ]


def draw(style: TableStyle, rows: Sequence[Row], *, first: bool = True) -> Drawn:
    """Return one group's table: a blank line, the headings, a line for each row.

    3.9 prints a blank line only before the offsets of the ``first`` group.
    """
    blank = "" if style.old and style.view == "offsets" and not first else "\n"
    shown = [{**row, "": "", "all_assignments": _both(row)} for row in rows]
    return _draw(style, columns(style, rows), shown, blank)


def draw_open_transactions(style: TableStyle, rows: Sequence[Row]) -> Drawn:
    """Return the table of the offsets that open transactions hold; Kafka's tool has none."""
    shown = [{**row, "since": format_time(row["since"])} for row in rows]
    return _draw(style, OPEN_TRANSACTION, shown)


def draw_unreconciled(style: TableStyle, rows: Sequence[Row]) -> Drawn:
    """Return the table of members that do not have their target yet; Kafka's tool has none."""
    return _draw(style, UNRECONCILED, rows)


def _draw(
    style: TableStyle, table_columns: Sequence[TableColumn], shown: Sequence[Row], before: str = ""
) -> Drawn:
    table = [
        [c.heading for c in table_columns],
        *([printable(_cell(style, c, row[c.field])) for c in table_columns] for row in shown),
    ]
    widths = [
        max([c.width, *(_java_length(line[i]) for line in table[1:])]) if c.grows else c.width
        for i, c in enumerate(table_columns)
    ]
    return Drawn(before, table, widths)


def _both(row: Row) -> str:
    return f"{row.get('assignments', '')}{row.get('target_assignments', '')}"


def _cell(style: TableStyle, column: TableColumn, value: Any) -> str:
    if style.kind == CONNECT and isinstance(value, dict):
        return assignment_text(value) or MISSING
    if isinstance(value, list):
        return ",".join(value) or MISSING
    if isinstance(value, dict):
        text = partition_lists(value) if style.old else assignment_text(value)
        # A share group's member without partitions has an empty cell.
        return text or ("" if style.kind == "share" else MISSING)
    if isinstance(value, bool):
        return str(value).lower()
    if column.field == "assignment_strategy" and style.old:
        return value or ""
    if column.field == "group_instance_id":
        return value or ""
    return MISSING if value is None or (value == "" and column.field) else str(value)


def assignment_text(assignment: Assignment) -> str:
    """Return an assignment as 4.1 writes it: ``clicks:0,1;orders:2``."""
    parts = (f"{topic}:{','.join(map(str, sorted(n)))}" for topic, n in assignment.items())
    return ";".join(sorted(parts, key=java_order))


def partition_lists(assignment: Assignment) -> str:
    """Return an assignment as 3.9 writes it, numbers sorted as text: ``(0,1,10), (2)``."""
    return ", ".join(sorted(f"({','.join(sorted(map(str, n)))})" for n in assignment.values()))


def draw_list(rows: Sequence[Row], fields: Sequence[str]) -> Drawn:
    """Return ``--list``: names, or a table of names and the fields (``type``, ``state``)."""
    lines = [[printable(row[name]) for name in ("group", *fields)] for row in rows]
    if not fields:
        return Drawn("", lines, [0])
    width = max([NARROW, *(_java_length(line[0]) for line in lines)]) + 10
    lines.insert(0, ["GROUP", *(name.upper() for name in fields)])
    return Drawn("", lines, [width, *(20 for _ in fields)])


def as_json(rows: Iterable[Row]) -> str:
    """Return a JSON array with a row on each line; unknown values are null."""
    return "[" + ",".join("\n" + json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Return CSV with one heading; unknown values and missing fields are empty."""
    fields = list(dict.fromkeys(name for row in rows for name in row))
    line = csvrows.line_writer()
    lines = [line(fields)]
    for row in rows:
        cells = (row.get(name) for name in fields)
        lines.append(line(list(map(csv_cell, cells))))
    return "".join(lines)


def csv_cell(value: Any) -> Any:
    """Return a value of a row as CSV shows it."""
    if isinstance(value, dict):
        return assignment_text(value)
    return ",".join(value) if isinstance(value, list) else value


def _java_length(text: str) -> int:
    return len(text) if text.isascii() else len(java_order(text)) // 2


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _java_length(text))
