"""Connect's metadata: bytes by Kafka's schema, and what a real Connect cluster wrote.

Source of the layouts: ConnectProtocol.java, IncrementalCooperativeConnectProtocol.java.
"""

import base64
import json
import struct

import pytest

from coterie.errors import CorruptData
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from coterie.log.connect_protocol import (
    CONNECTOR,
    read_assignment,
    read_state,
    read_work,
    tasks_text,
)
from coterie.report import ownership
from support.commandline import coterie_ok
from support.connect_workers import assignment, state, work
from support.golden_data import log, records
from support.insight.models import question_rows

GROUP = "connect-cluster"


def test_an_eager_worker_runs_what_it_is_assigned():
    read = read_assignment(assignment(0, work(src=[-1, 0, 1], snk=[2])))
    assert (read.leader, read.leader_url, read.config_offset) == ("lead", "http://l/", 5)
    assert read.assigned == {("src", CONNECTOR), ("src", 0), ("src", 1), ("snk", 2)}
    assert (read.revoked, read.delay_ms) == (frozenset(), 0)
    assert read_state(state(0, 7)).config_offset == 7
    assert read_work(state(0, 7), assignment(0, work(snk=[2]))) == {("snk", 2)}


@pytest.mark.parametrize("version", [1, 2])
def test_an_incremental_worker_runs_what_stays_and_what_comes(version):
    running = assignment(version, work(src=[-1, 0, 1]), work(), delay=struct.pack(">i", 0))
    comes = assignment(version, work(snk=[0]), work(src=[1]), delay=struct.pack(">i", 3000))
    assert read_assignment(comes).delay_ms == 3000
    assert read_assignment(comes).revoked == {("src", 1)}
    expected = {("src", CONNECTOR), ("src", 0), ("snk", 0)}
    assert read_work(state(version, 7, running), comes) == expected
    assert read_work(state(version, 7), comes) == {("snk", 0)}


def test_an_eager_assignment_has_all_that_a_worker_runs_whatever_it_ran():
    """During an upgrade, a leader of version 0 assigns work to a worker of version 1."""
    running = assignment(1, work(src=[-1, 0]), work(), delay=struct.pack(">i", 0))
    assert read_work(state(1, 7, running), assignment(0, work(snk=[2]))) == {("snk", 2)}


def test_fields_missing_at_the_end_have_their_defaults_and_lists_may_be_null():
    assert read_assignment(assignment(1)).assigned == frozenset()
    null = struct.pack(">i", -1)
    read = read_assignment(assignment(1, null, null))
    assert (read.assigned, read.revoked, read.delay_ms) == (frozenset(), frozenset(), 0)
    assert read_assignment(b"") is None
    whole = state(1, 7)
    assert read_state(whole[:-4]).running is None


@pytest.mark.parametrize("version", [0, 1])
def test_bytes_that_connect_cannot_read_are_corrupt(version):
    whole = assignment(version, work(src=[-1, 0]))
    for end in range(1, len(assignment(version))):
        with pytest.raises(CorruptData):
            read_assignment(whole[:end])
    with pytest.raises(CorruptData):
        read_assignment(struct.pack(">h", -1) + whole[2:])
    with pytest.raises(CorruptData):
        read_state(b"\0")


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ([], ""),
        ([("a", CONNECTOR)], "a"),
        ([("a", 3)], "a-3"),
        ([("b", 1), ("a", 10), ("a", CONNECTOR), ("b", 0), ("a", 2)], "a a-2,10 b-0,1"),
        ([("b", CONNECTOR), ("a", 0)], "a-0 b"),
    ],
)
def test_work_as_text_has_each_connector_before_its_tasks_by_name_and_number(held, text):
    assert tasks_text(held) == text


def generations():
    """The group's records by Kafka's own decode: members with both of their parts."""
    for record in records("connect"):
        if record["key"]["data"].get("group") == GROUP and record["value"]:
            data = record["value"]["data"]
            members = {
                member["memberId"]: [
                    base64.b64decode(member[name]) for name in ("subscription", "assignment")
                ]
                for member in data["members"]
            }
            yield data["generation"], data["leader"], members


def test_the_assignments_of_a_real_cluster_name_its_leader_and_give_each_task_once():
    every = list(generations())
    assert len(every) == 8
    for _, leader, members in every:
        for _, assigned in members.values():
            assert read_assignment(assigned).leader == leader
        held = [one for parts in members.values() for one in read_work(*parts)]
        assert len(held) == len(set(held))
    # golden/logs/README.md: a source and a sink connector; the last worker replaced a lost one.
    last = {one for parts in every[-1][2].values() for one in read_work(*parts)}
    assert last == {(name, CONNECTOR) for name in ("src", "snk")} | {
        ("src", 0),
        ("snk", 0),
        ("snk", 1),
    }


def test_the_members_of_a_connect_cluster_are_shown_with_their_work():
    rows = json.loads(
        coterie_ok(
            *("groups", log("connect"), "--describe", "--group", GROUP),
            *("--members", "--format", "json"),
        ).stdout
    )
    _, leader, members = list(generations())[-1]
    assert {row["consumer_id"] for row in rows} == set(members)
    by_client = {row["client_id"]: row for row in rows}
    assert by_client["worker-0"]["consumer_id"] == leader
    assert [by_client[f"worker-{n}"]["leader"] for n in (0, 2)] == [True, False]
    assert (by_client["worker-0"]["connectors"], by_client["worker-0"]["tasks"]) == (
        ["src"],
        {"src": [0]},
    )
    assert by_client["worker-2"]["tasks"] == {"snk": [0, 1]}
    assert {row["delay_ms"] for row in rows} == {0}
    table = coterie_ok("groups", log("connect"), "--describe", "--group", GROUP, "--members").stdout
    assert table.split("\n")[1].split()[4:] == [
        "URL",
        "LEADER",
        "CONFIG-OFFSET",
        "DELAY-MS",
        "CONNECTORS",
        "TASKS",
    ]
    # Bytes that are no metadata of Connect's.
    raw = coterie_ok("groups", log("connect"), "--describe", "--group", "connect-raw", "--members")
    assert raw.stdout.count(" - ") > 3


def test_explain_says_what_changed_in_a_workers_metadata():
    rows = question_rows(log("connect"), explain, explain.Parameters(), groups={GROUP})
    causes = {row["generation"]: row["cause"] for row in rows if row["event"] == "generation"}
    name = "worker-0 (127.0.0.1) changed its metadata"
    assert causes[2] == f"{name}: config offset -1 to 2"
    assert causes[3] == f"{name}: config offset 2 to 4, started src"
    # A worker is lost: its tasks wait for the scheduled delay of 3 s (the leader's field).
    assert causes[7] == (
        "worker-1 (127.0.0.1) left or was evicted; "
        "connectors and tasks without a worker wait for: 3.0 s"
    )


def test_the_report_shows_the_work_of_connects_workers():
    page = coterie_ok("report", log("connect"), "--group", GROUP, "--format", "markdown").stdout
    assert "config offset 2 to 4, started src" in page


def test_the_bars_of_connects_workers_show_their_connectors_and_tasks():
    (view,) = [v for v in read_partitions([log("connect")]) if GROUP in v.histories]
    bars = list(ownership.classic_bars(view.histories[GROUP], 0))
    last = {bar.member_id[:8]: ownership.assignment_text(bar.assigned) for bar in bars[-2:]}
    assert last == {
        "worker-0": (1, "connector src; tasks of src: 0"),
        "worker-2": (2, "connector snk; tasks of snk: 0-1"),
    }


def test_groups_of_any_kind_are_listed_together():
    listed = coterie_ok("groups", log("kip848"), "--list", "--kind", "any").stdout.split()
    kinds = [
        coterie_ok("groups", log("kip848"), "--list", "--kind", kind).stdout.split()
        for kind in ("consumer", "share", "streams")
    ]
    assert sorted(listed) == sorted(name for names in kinds for name in names)
    connect = coterie_ok("groups", log("connect"), "--list", "--kind", "any").stdout.split()
    assert {GROUP, "schema-registry", "connect-snk"} <= set(connect)
