"""``coterie groups`` equals the output of Kafka's own tools on the running broker, to the byte.

The comparison ignores COORDINATOR, LOG-END-OFFSET and LAG, which a log does not have, and the order
of rows that depends on a hash in Kafka. ``ONLY_LIVE`` and ``OTHER_THEN`` list other differences.
"""

import csv
import json
import os
import re
import subprocess

import pytest

from coterie.cli import run
from coterie.cli.groups import VIEW_NAMES
from coterie.state import tabular
from coterie.state.group_views import offset_rows
from coterie.testing import assignment
from support.commandline import COTERIE, coterie
from support.golden_data import LOGS, cases, live, log, records, wide

VIEWS = {
    "offsets.txt": ["--describe", "--all-groups", "--offsets"],
    "members.txt": ["--describe", "--all-groups", "--members", "--verbose"],
    "state.txt": ["--describe", "--all-groups", "--state"],
    "list.txt": ["--list", "--state"],
    "share-offsets.txt": ["--describe", "--all-groups", "--kind", "share", "--verbose"],
    "share-members.txt": ["--describe", "--all-groups", "--members", "--kind=share", "--verbose"],
    "share-state.txt": ["--describe", "--all-groups", "--state", "--kind=share", "--verbose"],
}
ONLY_LIVE = {  # case -> groups that the broker knew and the log does not hold
    "basic": {"grp-kp-roundrobin"},  # its leader died before each sync: no record at all
    "transactions": {"tx-timed-out"},  # all it ever had was an aborted transaction
}
OTHER_THEN = {  # (case, text) -> groups that were in the middle of something
    # Preparing a rebalance, which no record tells; the last record is of the state before.
    **{("compression-snappy", f"{name}.txt"): {"mirror-009"} for name in (*VIEW_NAMES, "list")},
    ("default50", "list.txt"): {"etl-028", "sink-037"},
    # The tool ran before the groups' last record: see the test with --at.
    ("default50", "offsets.txt"): {"app-014", "etl-034", "sink-037"},
}
FAILED_LIVE = {"connect"}  # one undecodable assignment makes Kafka's tool fail for all groups
COORDINATOR = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+  \(\d+\)")


def text_cases():
    for case in cases():
        for folder in ("live", "restart"):
            for path in sorted((LOGS / case / folder).glob("*.txt")):
                if path.name in VIEWS and (case not in FAILED_LIVE or path.name == "list.txt"):
                    name = f"{folder}/{path.name}"
                    yield pytest.param(case, name, id=f"{case}-{name}")


def without_what_only_a_broker_knows(text):
    """Kafka's text with a dash, equally wide, for each coordinator, log end offset and lag."""
    text = COORDINATOR.sub(lambda blocks: "-".ljust(len(blocks[0])), text)
    lines = []
    for line in text.splitlines():
        if line.startswith("GROUP "):
            at = line.find("CURRENT-OFFSET")
        elif line and at >= 0:
            head, _, tail = re.fullmatch(rf"(.{{{at}}}\S+ +)(\S+ +\S+ +)(.*)", line).groups()
            line = head + "-".ljust(16) + "-".ljust(16) + tail
        lines.append(line)
    return "\n".join(lines) + "\n" * text.endswith("\n")


def blocks(text):
    """Each table as (lines before it that are blank, heading, its rows as a sorted tuple)."""
    found, blank = [], 0
    for line in text.splitlines():
        if not line:
            blank += 1
        elif line.startswith("GROUP "):
            found.append((blank, line, []))
            blank = 0
        else:
            found[-1][2].append(line)
    return [(blank, heading, tuple(sorted(rows))) for blank, heading, rows in found]


def leave_out(found, groups):
    """Remove the rows of these groups, and the blocks that become empty."""
    retained = []
    for blank, heading, rows in found:
        left = tuple(row for row in rows if row.split()[0] not in groups)
        if left or not rows:
            retained.append((blank, heading, left))
    return retained


@pytest.mark.parametrize(("case", "name"), list(text_cases()))
def test_a_view_is_what_kafka_printed(case, name, capfd):
    view = name.rpartition("/")[2]
    assert run(["groups", str(log(case)), *VIEWS[view]]) == 0
    ours = blocks(capfd.readouterr().out)
    theirs = (log(case) / name).read_text(encoding="utf-8")
    theirs = blocks(without_what_only_a_broker_knows(theirs))
    only_live, other_then = ONLY_LIVE.get(case, set()), OTHER_THEN.get((case, view), set())
    theirs = leave_out(theirs, only_live | other_then)
    ours = leave_out(ours, other_then)
    if view == "members.txt" and case == "transactions":
        # The heading of a group without members has no name on it: tx-timed-out's is one of them.
        theirs.remove((1, theirs[0][1], ()))
    if case in ONLY_LIVE and view == "members.txt":
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs


def lags(rows):
    """Place -> current offset, end and lag; a lag below 0 is not known."""
    numbers = (
        (*row[:3], *[None if cell in ("-", "") else int(cell) for cell in row[3:6]]) for row in rows
    )
    return {
        (*place, now): (end, None if lag is not None and lag < 0 else lag)
        for *place, now, end, lag in numbers
    }


@pytest.mark.parametrize("case", ["compacted", "kip848"])
def test_lags_are_those_that_kafka_printed(case, tmp_path):
    cells = [line.split() for line in live(case, "offsets.txt").splitlines()]
    theirs = [row for row in cells if row and row[0] != "GROUP"]
    ends = tmp_path / "ends.csv"
    ends.write_text("".join(f"{row[1]}:{row[2]}:{row[4]}\n" for row in theirs if row[4] != "-"))
    result = coterie(
        *("groups", log(case), "--describe", "--all-groups", "--kind", "consumer"),
        *("--end-offsets", ends, "--format", "csv"),
    )
    names = ("group", "topic", "partition", "current_offset", "log_end_offset", "lag")
    rows = csv.DictReader(result.stdout.splitlines())
    assert lags([row[name] for name in names] for row in rows) == lags(theirs)


@pytest.mark.parametrize("group", sorted(OTHER_THEN["default50", "offsets.txt"]))
def test_the_record_before_the_last_shows_the_group_that_kafka_saw(group, capfd):
    times = [
        record["timestamp"]
        for record in records("default50")
        if record.get("key") and record["key"]["data"]["group"] == group
        if record["key"]["type"] == "group_metadata"
    ]
    args = ["groups", str(log("default50")), "--describe", "--group", group, f"--at={times[-2]}"]
    assert run(args) == 0
    theirs = [line for line in live("default50", "offsets.txt").splitlines() if f"{group} " in line]
    ours = [line for line in capfd.readouterr().out.splitlines() if f"{group} " in line]
    assert {tuple(w for i, w in enumerate(line.split()) if not 3 <= i <= 5) for line in ours} == {
        tuple(w for i, w in enumerate(line.split()) if not 3 <= i <= 5) for line in theirs
    }


def test_every_text_of_kafka_is_compared_or_named():
    compared = {param.values[0] for param in text_cases()}
    assert compared == set(cases()) - {"old-formats"}  # no broker wrote it
    assert {"groups-list.txt"} == {  # kafka-groups' view of every kind, with a column of its own
        path.name
        for case in compared
        for path in (LOGS / case).glob("[lr]*/*.txt")
        if path.name not in VIEWS
    }


def test_rows_stand_in_an_order_of_our_own_where_kafka_leaves_it_to_a_hash(capfd):
    run(["groups", str(log("kip848")), "--describe", "--group", "new-regex"])
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[2:]]
    assert [(topic, int(partition)) for _, topic, partition, *_ in rows] == [
        *(("clicks", n) for n in range(4)),
        *(("orders", n) for n in range(6)),
        *(("audit", n) for n in range(3)),
    ]


# ---- messages, states and kinds ----------------------------------------------------------------


def test_members_of_as_many_partitions_stand_as_java_sorts_their_ids():
    """By UTF-16 code units: what lies beyond the basic plane stands before U+FFFF."""
    ids = ["m", "\U00010000", "\uffff"]

    members = [
        {
            **dict.fromkeys(("client_id", "client_host", "group_instance_id")),
            "member_id": member_id,
            "assignment": assignment({"t": [number]}, 0),
        }
        for number, member_id in enumerate(ids)
    ]
    group = {"group_id": "g", "type": "classic", "protocol_type": "consumer", "offsets": []}
    for order in (members, members[::-1]):
        rows = offset_rows({**group, "members": order})
        assert [row["consumer_id"] for row in rows] == ids


def test_a_group_without_members_is_said_on_standard_error_as_kafka_says_it(capfd):
    run(["groups", str(log("kip848")), "--describe", "--group", "new-empty"])
    out, err = capfd.readouterr()
    assert (out, err) == ("", "\nConsumer group 'new-empty' has no active members.\n")


def test_a_share_group_that_is_named_is_shown_as_kafkas_share_tool_shows_it(capfd):
    assert run(["groups", str(log("kip848")), "--describe", "--group=share-1", "--members"]) == 0
    assert capfd.readouterr().out.split("\n")[1:3] == [
        "GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS  "
        "ASSIGNMENT",
        "share-1         ckIUlqCpRteTs1IW5JybAw /127.0.0.1      sh-0            6            "
        "orders:0,1,2,3,4,5",
    ]


def test_a_streams_group_shows_the_tasks_that_members_hold_and_shall_hold(capfd):
    run(["groups", str(log("kip848")), "--describe", "--group=streams-app", "--members"])
    out = capfd.readouterr().out
    assert "ACTIVE: 0:[0,1,2]; " in out
    run(["groups", str(log("kip848")), "--describe", "--group=streams-app", "--state"])
    assert re.search(r"streams-app +- +Reconciling +2\n", capfd.readouterr().out)


def test_the_types_of_a_list_are_those_that_kafka_lists(capfd):
    theirs = dict(line.split()[:2] for line in live("kip848", "groups-list.txt").splitlines()[1:-1])
    ours = {}
    for kind in ("consumer", "share", "streams"):
        assert run(["groups", str(log("kip848")), "--list", "--type", "--kind", kind]) == 0
        ours |= dict(line.split() for line in capfd.readouterr().out.splitlines()[1:])
    assert ours == theirs


def test_a_list_without_columns_is_the_names_alone(capfd):
    run(["groups", str(log("connect")), "--list"])
    names = capfd.readouterr().out.splitlines()
    assert names == sorted(line.split()[0] for line in live("connect", "list.txt").splitlines()[1:])


def test_an_assignment_that_cannot_be_read_is_named_and_stops_nothing(capfd):
    assert run(["groups", str(log("connect")), "--describe", "--all-groups", "--members"]) == 0
    out, err = capfd.readouterr()
    assert "consumer-bad-bytes" in out
    assert "consumer-big" in out
    assert "group 'consumer-bad-bytes', member" in err


def test_old_tables_can_be_asked_for(capfd):
    run(["groups", str(log("kip848")), "--describe", "--all-groups", "--state", "--layout", "3.9"])
    assert capfd.readouterr().out.splitlines()[1].split("STATE") == [
        "GROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  ",
        "           #MEMBERS",
    ]


# ---- through the command ------------------------------------------------------------------------


def groups(*args):
    return coterie("groups", *args)


def test_json_has_every_column_and_null_where_a_log_does_not_know():
    done = groups(str(log("kip848")), "--describe", "--group=with-gone", "--format=json")
    rows = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(rows)) == (0, "", 9)
    assert rows[0] == {
        "group": "with-gone",
        "topic": "gone",
        "partition": 0,
        "leader_epoch": 12,
        "current_offset": 2220,
        "log_end_offset": None,
        "lag": None,
        "consumer_id": "U0FyjGxgSdu1rgZgz-v-YQ",
        "host": "/127.0.0.1",
        "client_id": "java-21",
    }


def test_csv_holds_the_same_rows_as_json():
    args = [str(log("kip848")), "--describe", "--all-groups", "--members"]
    rows = json.loads(groups(*args, "--format=json").stdout)
    lines = list(csv.DictReader(groups(*args, "--format=csv").stdout.splitlines()))
    assert [line["consumer_id"] for line in lines] == [row["consumer_id"] for row in rows]
    both = next(line for line in lines if line["client_id"] == "java-8")
    assert both["target_assignment"] == "clicks:0,1,2,3;orders:0,1,2,3,4,5"


def test_a_cell_of_csv_may_have_any_character():
    rows = [{"metadata": 'a\0"', "topic": "\0,"}, {"metadata": "\0", "topic": None}]
    assert tabular.as_csv(rows) == 'metadata,topic\n"a\0""","\0,"\n\0,\n'


def test_a_time_shows_the_group_as_it_was():
    commits = [
        record
        for record in records("kip848")
        if record.get("key") and record["key"]["data"].get("group") == "classic-kp"
        if record["key"]["version"] == 1 and record["key"]["data"]["partition"] == 0
    ]
    assert len(commits) > 1
    first = commits[0]
    args = [str(log("kip848")), "--describe", "--group=classic-kp", "--format=json"]
    then = groups(*args, f"--at={first['timestamp']}")
    offsets = {(r["topic"], r["partition"]): r["current_offset"] for r in json.loads(then.stdout)}
    data = first["key"]["data"]
    assert offsets[data["topic"], 0] == first["value"]["data"]["offset"]
    before = groups(*args, f"--at={min(r['timestamp'] for r in records('kip848')) - 1}")
    assert before.returncode == 1
    assert before.stderr == "Error: Consumer group 'classic-kp' does not exist.\n"


def test_a_group_that_is_not_there_is_an_error_and_the_others_are_shown():
    done = groups(str(log("basic")), "--describe", "--group=nobody", "--group=grp-ck-range")
    assert done.returncode == 1
    assert done.stderr == "Error: Consumer group 'nobody' does not exist.\n"
    assert "\ngrp-ck-range " in done.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "--list and --describe"),
        (["--list", "--describe"], "--list and --describe"),
        (["--describe"], "--group or --all-groups"),
        (["--describe", "--group=g", "--all-groups"], "--group or --all-groups"),
        (["--describe", "--all-groups", "--members", "--state"], "--offsets, --members and"),
        (["--list", "--members"], "--list goes without"),
        (["--describe", "--all-groups", "--type"], "--type goes with --list"),
        (["--list", "--format=xml"], "xml"),
        (["--list", "--at=yesterday"], "yesterday"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(args, says):
    done = groups(str(log("basic")), *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_a_log_that_is_not_there_is_one_line_and_status_1(tmp_path):
    done = groups(str(tmp_path / "gone"), "--list")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Traceback" not in done.stderr


def test_corrupt_places_are_counted_on_standard_error_and_the_rest_is_shown():
    done = groups(str(log("corrupt/flipped-crc")), "--list")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "corrupt" in done.stderr
    assert done.stdout


def test_names_that_no_locale_can_print_are_printed_as_utf_8():
    command = [*COTERIE, "groups", str(log("basic")), "--list"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run(command, capture_output=True, env=env)
    assert ran.returncode == 0
    assert "ß" in ran.stdout.decode("utf-8")


def test_the_list_of_a_log_with_many_groups_is_kafkas(capfd):
    folder = wide()
    assert run(["groups", str(folder), "--list", "--state"]) == 0
    ours = capfd.readouterr().out
    theirs = (folder / "live" / "list.txt").read_text(encoding="utf-8")
    assert blocks(ours) == blocks(theirs)
