"""What a 4.1 broker's own logs say about the groups of `incidents/protocols`."""

import gzip
import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from coterie.base.times import LogClock, format_time
from coterie.insight.questions import explain
from support.commandline import coterie_ok
from support.insight.incident import (
    FOLDER,
    LOGS,
    REQUESTS,
    SERVER,
    client_event,
    command_rows,
    within,
)


@pytest.fixture(scope="module")
def rows():
    result = {}
    for row in command_rows("explain", *LOGS):
        if row["event"] in explain.SUMMARIES:
            continue
        result.setdefault(row["group_id"], []).append(row)
    return result


def of(rows, group, event, client, what):
    """The only row of this event with this cause for a client."""
    (result,) = (
        row
        for row in rows[group]
        if row["event"] == event
        and any((c["client_id"], c["what"]) == (client, what) for c in row["causes"])
    )
    return result


def cause_of(row, what):
    (cause,) = (cause for cause in row["causes"] if cause["what"] == what)
    return cause


@pytest.mark.parametrize(("before", "after"), [("till-a", "till-a2"), ("till-b", "till-b2")])
def test_a_static_replacement_has_the_line_of_its_own_member(rows, before, after):
    old, new = (client_event("assigned", name)["member_id"] for name in (before, after))
    (row,) = (
        row
        for row in rows["till"]
        if row["event"] == "static_replacement" and cause_of(row, "replaced")["member_id"] == new
    )
    assert row["reason"] == f"Replacing previously mapped member {old} with this groupInstanceId"
    assert within(row, ("start", after), ("assigned", after))


@pytest.mark.parametrize("name", ["till-a", "till-b", "till-c"])
def test_a_generation_keeps_the_line_that_led_to_it(rows, name):
    member = client_event("assigned", name)["member_id"]
    (row,) = (
        row
        for row in rows["till"]
        if row["event"] == "generation"
        and [c["member_id"] for c in row["causes"] if c["what"] == "joined"] == [member]
    )
    assert row["reason"].startswith(f"Adding new member {member} with group instance id")


def test_a_newer_groups_replacement_has_its_line_too(rows):
    row = of(rows, "vault", "static_replacement", "vault-a2", "replaced")
    old, new = (client_event("assigned", name)["member_id"] for name in ("vault-a", "vault-a2"))
    assert row["reason"] == f"Created a new member {new} to replace the existing member {old}"


@pytest.mark.parametrize(
    ("group", "name", "source", "detail"),
    [
        ("moved", "app-1", "request log", "the consumer is being closed"),  # a classic member
        ("moved", "app-3", "request log", None),  # one of the newer protocol
        ("idle", "idle-2", "request log", None),
    ],
)
def test_a_member_of_a_newer_group_that_said_so_left(rows, group, name, source, detail):
    cause = cause_of(of(rows, group, "epoch", name, "left"), "left")
    assert (cause["source"], cause["detail"]) == (source, detail)


def test_a_session_that_ended_is_an_eviction(rows):
    cause = cause_of(of(rows, "vault", "epoch", "vault-a3", "evicted"), "evicted")
    assert cause["source"] == "server log"
    assert "session expired" in cause["detail"]


def test_the_server_log_alone_tells_who_left_a_newer_group():
    rows = command_rows("explain", "--server-log", SERVER, "--group", "moved")
    gone = {
        (cause["client_id"], cause["what"], cause["source"])
        for row in rows
        if row["event"] in ("epoch", "downgraded")
        for cause in row["causes"]
        if cause["what"] in ("left", "evicted", "left_or_evicted")
    }
    assert gone == {(f"app-{n}", "left", "server log") for n in (1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("group", "name", "error"),
    [
        ("clash", "clash-2", "INCONSISTENT_GROUP_PROTOCOL; it offers consumer: roundrobin"),
        ("vault", "vault-x", "UNRELEASED_INSTANCE_ID"),
    ],
)
def test_a_join_that_was_refused_stands_in_the_timeline(rows, group, name, error):
    (row,) = (row for row in rows[group] if row["event"] == "refused")
    assert within(row, ("start", name), ("failed", name))
    (cause,) = row["causes"]
    assert (cause["client_id"], cause["detail"]) == (name, error)
    times = [one["timestamp"] for one in rows[group]]
    assert times == sorted(times)


def test_a_refused_join_names_who_wanted_the_id_not_whose_it_is(rows):
    # README: `vault-x` wants `s-2`, which `vault-b` has.
    (row,) = (row for row in rows["vault"] if row["event"] == "refused")
    assert row["cause"].startswith("vault-x as static s-2 (127.0.0.1) was refused: UNRELEASED")


def test_no_join_is_refused_in_groups_where_none_was(rows):
    refused = {group for group, theirs in rows.items() for r in theirs if r["event"] == "refused"}
    assert refused == {"clash", "vault"}


def refusal(ms, error, client="c", group="clash"):
    line = {
        "requestHeader": {
            "requestApiKeyName": "JOIN_GROUP", "requestApiVersion": 9, "clientId": client,
        },
        "request": {"groupId": group, "memberId": "", "protocolType": "consumer",
                    "protocols": [{"name": "sticky", "metadata": ""}]},
        "response": {"errorCode": error, "memberId": "", "generationId": -1},
        "totalTimeMs": 1.0,
    }  # fmt: skip
    at = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    return f"[{at}] DEBUG Completed request:{json.dumps(line)} (kafka.request.logger)\n"


def test_refusals_between_two_records_are_one_row_each_client_and_error(tmp_path):
    at_ms = client_event("assigned", "clash-1")["at_ms"] + 50
    lines = [refusal(at_ms + n, 23, f"c{n % 2}") for n in range(5)]
    lines += [refusal(at_ms + 6, 81), refusal(at_ms + 7, 79), refusal(at_ms + 8, 16)]
    lines.append(refusal(client_event("stopped", "clash-1")["at_ms"] + 50, 23))
    log = tmp_path / "requests.log"
    log.write_text("".join(lines))
    rows = command_rows("explain", "--request-log", log, "--group", "clash")
    refused = [row for row in rows if row["event"] == "refused"]
    assert [(row["causes"][0]["client_id"], row["count"]) for row in refused] == [
        ("c0", 3), ("c1", 2), ("c", 1), ("c", 1),
    ]  # fmt: skip
    assert refused[2]["causes"][0]["detail"] == "GROUP_MAX_SIZE_REACHED"
    assert refused[0]["until"] - refused[0]["timestamp"] == 4
    assert rows.index(refused[3]) > max(i for i, r in enumerate(rows) if r["event"] == "empty")


def test_a_group_of_which_only_refused_joins_are_known_is_reported(tmp_path):
    log = tmp_path / "requests.log"
    lines = [refusal(client_event("assigned", "clash-1")["at_ms"] + n, error, group="secret")
             for n, error in enumerate([30, 30, 26])]  # fmt: skip
    log.write_text("".join(lines))
    first, last = (
        format_time(client_event("assigned", "clash-1")["at_ms"] + n - 1) for n in (0, 2)
    )
    result = coterie_ok("explain", FOLDER, "--request-log", log, "--format", "json")
    assert "secret" not in result.stdout
    assert result.stderr == (
        "coterie: group 'secret' has no record, but joins to it were refused: "
        f"2 x GROUP_AUTHORIZATION_FAILED, 1 x INVALID_SESSION_TIMEOUT, {first} to {last}\n"
    )


def test_the_table_leaves_out_what_says_nothing():
    shown = coterie_ok("explain", FOLDER, *LOGS, "--group", "clash").stdout
    assert "[server log: Adding new member clash-1]" in shown
    assert "given member-id" not in shown


def shifted(path, zone, name):
    """A log of UTC in another zone's local time."""
    lines = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True):
        if line.startswith("[2026-"):
            moment = datetime.fromisoformat(line[1:20]).replace(tzinfo=UTC)
            local = moment.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")
            line = f"[{local}{line[20:]}"
        lines.append(line)
    name.write_text("".join(lines))
    return name


def test_a_zone_by_name_gives_the_same_answer_as_utc(tmp_path):
    zone = "America/St_Johns"
    logs = [shifted(path, zone, tmp_path / path.stem) for path in (SERVER, REQUESTS)]
    options = ("--server-log", logs[0], "--request-log", logs[1], "--log-zone", zone)
    assert command_rows("explain", *options) == command_rows("explain", *LOGS)


def utc_ms(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000


def test_the_hour_that_comes_twice_is_reported_apart_by_the_order_of_the_lines():
    clock = LogClock("Europe/Berlin")  # at 2026-10-25T01:00 UTC 03:00 becomes 02:00
    lines = {
        "01:59:59,500": "2026-10-24 23:59:59.500",
        "02:30:00,000": "2026-10-25 00:30:00.000",
        "02:59:59,999": "2026-10-25 00:59:59.999",
        "02:00:00,001": "2026-10-25 01:00:00.001",
        "02:59:00,000": "2026-10-25 01:59:00.000",
        "02:58:59,990": "2026-10-25 01:58:59.990",  # written by another thread
        "03:00:00,000": "2026-10-25 02:00:00.000",
    }
    assert [clock.ms(f"2026-10-25 {local}") for local in lines] == list(map(utc_ms, lines.values()))


def test_a_log_that_begins_in_the_hour_that_comes_twice_is_taken_for_the_first():
    clock = LogClock("Europe/Berlin")
    assert clock.ms("2026-10-25 02:10:00,000") == utc_ms("2026-10-25 00:10:00")
