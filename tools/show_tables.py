"""Print the groups in a folder that ``coterie replay`` wrote, and its tables.

``python tools/show_tables.py DIR``. Reads the Parquet files only, as any other tool would.
"""

import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = ["group", "state", "type", "generation", "protocol", "members", "offsets"]
NAME_CHARACTERS = 30


def main(folder):
    """Print one line for each group, by id, then one for each table."""
    rows = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    count = {name: Counter(rows[name]["group_id"].to_pylist()) for name in ("members", "offsets")}
    shown = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in shown.columns:
        column.justify = (
            "right" if column.header in {"generation", "members", "offsets"} else "left"
        )
        column.no_wrap = True
    for row in sorted(rows["groups"].to_pylist(), key=lambda row: row["group_id"]):
        name = row["group_id"]
        name = Text(name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…")
        cells = [row["state"], row["protocol_type"], row["generation"], row["protocol"]]
        cells += [count[table][row["group_id"]] for table in ("members", "offsets")]
        shown.add_row(name, *("-" if value is None else str(value) for value in cells))
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(shown)
    for name, table in rows.items():
        console.print(f"{folder / name}.parquet: {table.num_rows:,} rows", soft_wrap=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
