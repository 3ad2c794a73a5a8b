"""What the questions refuse: wrong usage, and what names nothing, each in one line.

``tests/cli/test_bad_input.py`` has the logs that no command reads.
"""

import shlex
from pathlib import Path

import pytest

from support.commandline import fails
from support.golden_data import log

ENDS = Path(__file__).with_name("ends")
USAGE = {  # options -> what the line names
    "audit": {
        "--only rewinds": "--only",
        "--only divergence": "needs --live FILE",
        "--only rewind --except rewind": "leaves nothing",
        "--rewind-by 0": "--rewind-by",
        "--skip-by 0": "--skip-by",
        "--skip-rate no": "--skip-rate",
        "--stall-for long": "is no duration",
        "--window long": "is no duration",
        "--top 0": "--top",
    },
    "expire": {
        "--now yesterday": "is not a time",
        "--now 2026-01-01T00:00:00": "no zone",
        "--retention 7": "is no duration",
        "--retention '7 days'": "is no duration",
        "--what-if -1d": "is no duration",
        "--status lost": "lost",
        "--format parquet": "--out FILE",
    },
    "explain": {
        "--flap-window soon": "is no duration",
        "--flap-count 1": "--flap-count",
        **dict.fromkeys([f"--log-zone {zone}" for zone in
                         ("Paris", "+2", "Europe", "''", "../etc/passwd")], "is no zone"),
        "--log-zone +19:00": "no zone is",
        "--log-zone +02:00": "none is given",
        "--format parquet": "--out FILE",
        "--at never": "is not a time",
        "--since 5 --until 4": "--since is later",
        "--at 5 --until 4": "say the same",
    },
    "growth": {
        "--every 0s": "above 0",
        "--every often": "is no duration",
        "--interval 5": "is no duration",
        "--top -1": "--top",
        "--by size": "--by",
    },
    "lag": {
        "": "--end-offsets",
        "--end-offsets {ends}/ends.csv --at 5": "FILE has times",
        "--end-offsets {ends}/ends.txt --at soon": "is not a time",
    },
    "metrics": {
        "--group-filter '('": "--group-filter",
        "--names burrow": "burrow",
        "--at 5 --end-offsets {ends}/ends.csv": "--at is for end offsets without",
    },
    "records": {
        "--at 5 --until 4": "say the same",
        "--since 5 --at 4": "--since is later than",
        "--since 5 --until 4": "--since is later than",
    },
    "report": {"--log-zone +02:00 --out nowhere": "none is given"},
    "undo": {
        "": "--group",
        "--group g": "either --at or --before",
        "--group g --at 1 --before 2": "either --at or --before",
        "--at 150": "either --group or --all-groups",
        "--at 150 --group g --all-groups": "either --group or --all-groups",
        "--at soon --group g": "is not a time",
        "--at 150 --group g --format parquet": "--out FILE",
        "--at 150 --group g --overwrite": "--out FILE",
        "--at 150 --group g --engine local --master local": "--engine spark",
        "--at 5 --all-groups --until 4": "--until is earlier than the time to go back to",
    },
}  # fmt: skip
NOTHING = {
    "audit": {
        "--live nowhere.json": "nowhere.json: cannot be read",
        "--group nobody": "no record of group 'nobody'",
    },
    "expire": {
        "--group nobody": "no record of group 'nobody'",
        "--group nobody --now 5": "no record of group 'nobody'",
    },
    "explain": {
        "--group nobody": "no record of group 'nobody'",
        "--server-log missing.log": "missing.log",
    },
    "growth": {"--group nobody": "no record of group 'nobody'"},
    "lag": {
        "--end-offsets nowhere": "nowhere: cannot be read",
        "--end-offsets {ends}/ends.txt --group nobody": "no record of group",
    },
    "metrics": {
        "--end-offsets nowhere": "nowhere",
        "--group nobody": "no record of group 'nobody'",
    },
    "undo": {
        "--at 150 --group nobody": "no record of group 'nobody'",
        "--at 1796133900000 --group grp-reset-cli -o no/such/folder": "its folder does not exist",
    },
}


@pytest.mark.parametrize(("status", "table"), [(1, NOTHING), (2, USAGE)], ids=["names", "usage"])
def test_what_is_refused_is_named_in_one_line(status, table, tmp_path):
    for command, refused in table.items():
        for options, says in refused.items():
            given = shlex.split(options.format(ends=ENDS))
            fails(command, log("basic"), *given, status=status, says=says, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
