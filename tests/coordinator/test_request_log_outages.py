"""What the broker did by itself, in an imported trace: failovers and removals of offsets."""

import json
import re
from datetime import UTC, datetime

import pytest

from coterie import run_trace
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_removals import Removal, removals
from support.commandline import coterie_ok, fails
from support.golden_data import GOLDEN
from support.request_lines import commit, events, line

TIME = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+\d")
AT = "10.0.0.1:9092-10.0.0.2"
SUBSCRIPTION = "AAEAAAABAAF0/////w=="


def utc_ms(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000


def down(*commits, started=()):
    """Return the outages, in seconds of the log, for commits at (second, connection)."""
    lines = [commit(0, ms=1000 * s, connection=f"{AT}:{where}") for s, where in commits]
    made = import_request_log(lines, started_ms=started)
    return [(float(last[17:]), float(first[17:])) for last, first in made.outages]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("4000-0-3", "4001-1-3"), "5000-0-3"),  # a number that processor 0 has given
        (("4000-0-30", "4001-1-30"), "5000-0-2"),  # one below all that it has given
        (("4000-7", "4001-8", "4002-8"), "5000-1"),  # up to 3.x the processor is not logged
    ],
)
def test_connections_that_are_numbered_anew_show_a_restart(before, after):
    commits = [(1 + number, where) for number, where in enumerate(before)]
    ((last, first),) = down(*commits, (20, after), (21, after))
    assert last == 1 + len(before) - 1
    assert first == 19.999  # when the request came in


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("4000-0-3", "4001-1-3"), "5000-0-4"),  # the next number
        (("4000-0-3", "4001-1-3"), "5000-2-3"),  # of a processor not seen so far
        (("4000-0-3", "4001-1-4"), "4000-0-3"),  # the same connection
        (("4000-7", "4001-8", "4002-8"), "5000-8"),  # of the third of three processors
        (("4000-7", "4001-8", "4002-9"), "5000-8"),  # of one that has not been seen for a while
    ],
)
def test_connections_that_are_numbered_on_show_none(before, after):
    commits = [(1 + number, where) for number, where in enumerate(before)]
    assert down(*commits, (20, after), (21, after)) == []


def test_a_connection_that_lives_on_says_that_the_broker_did():
    assert down((1, "4000-0-3"), (2, "4001-0-4"), (20, "5000-0-3"), (21, "4001-0-4")) == []


def test_a_server_log_says_when_it_had_started():
    started = 1_767_225_612_500  # 2026-01-01T00:00:12.5
    assert down((1, "4000-0-3"), (20, "5000-1-9"), started=[started]) == [(1.0, 12.5)]
    assert down((1, "4000-0-3"), (20, "5000-0-3"), started=[started]) == [(1.0, 12.5)]
    assert down((1, "4000-0-3"), started=[started]) == []  # nothing came after


def member(first_s, later_s, connection):
    """A member that joins, syncs, and heartbeats at later times over another connection."""
    join = {"groupId": "g", "memberId": "", "groupInstanceId": "i", "sessionTimeoutMs": 6000,
            "rebalanceTimeoutMs": 6000, "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}  # fmt: skip
    who = {"groupId": "g", "memberId": "i-1", "groupInstanceId": "i", "generationId": 1}
    joined = {"errorCode": 0, "generationId": 1, "protocolType": "consumer",
              "protocolName": "range", "leader": "i-1", "memberId": "i-1",
              "members": [{"memberId": "i-1", "groupInstanceId": "i", "metadata": SUBSCRIPTION}],
              }  # fmt: skip
    synced = {"errorCode": 0, "protocolType": "consumer", "protocolName": "range", "assignment": ""}
    ms = 1000 * first_s
    yield line("JOIN_GROUP", 7, join, joined, ms, "c", f"{AT}:4000-0-3")
    sync = who | {"protocolType": "consumer", "protocolName": "range", "assignments": []}
    sync["assignments"] = [{"memberId": "i-1", "assignment": ""}]
    yield line("SYNC_GROUP", 5, sync, synced, ms + 10, "c", f"{AT}:4000-0-3")
    for s in later_s:
        yield line("HEARTBEAT", 4, who, {"errorCode": 0}, 1000 * s, "c", f"{AT}:{connection}")


def failovers_at(made):
    return [event["at"] for event in events(made) if event["op"] == "failover"]


def test_an_outage_has_a_failover_at_each_end_and_more_at_half_of_the_shortest_session():
    instant = commit(0, ms=11_000, connection=f"{AT}:5000-0-3")
    instant = re.sub(r'(TimeMs": )[\d.]+', r"\g<1>0.0", instant)  # came and was answered at once
    made = import_request_log([commit(0, ms=1000, connection=f"{AT}:4000-0-3"), instant])
    assert [event["op"] for event in events(made)] == [
        "offset_commit", "failover", "failover", "failover", "offset_commit",
    ]  # fmt: skip
    assert failovers_at(made) == [1, 5001, 10_001]  # without a session as if it were 10 s
    lines = [*member(1, (), ""), list(member(1, (9,), "5000-0-3"))[2]]
    made = import_request_log(lines, {"group.initial.rebalance.delay.ms": 0})
    assert failovers_at(made) == [11, 3011, 6011, 8000]  # of 6 s: from the sync to the heartbeat


def test_a_refused_session_of_0_ms_leaves_a_millisecond_between_failovers():
    join = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 0, "rebalanceTimeoutMs": 0,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": ""}]}  # fmt: skip
    refused = {"errorCode": 26, "generationId": -1, "protocolName": None, "leader": "",
               "memberId": "", "members": []}  # fmt: skip
    first = line("JOIN_GROUP", 5, join, refused, 1, connection=f"{AT}:4000-0-3")
    made = import_request_log([first, commit(0, ms=1100, connection=f"{AT}:5000-0-3")])
    assert failovers_at(made) == [*range(1, 1100), 1099]  # the last as the request comes, at 1099.5


def test_an_outage_right_behind_the_first_request_is_one():
    """The end of a transaction counts from its response on."""
    request = {"transactionalId": "x", "producerId": 7, "producerEpoch": 0, "committed": True}
    end = line("END_TXN", 3, request, {"errorCode": 0}, 1000, connection=f"{AT}:4000-0-3")
    made = import_request_log([end, commit(0, ms=20_000, connection=f"{AT}:5000-0-3")])
    assert len(made.outages) == 1


SECOND_0_MS = 1_767_225_600_000  # 2026-01-01


@pytest.mark.parametrize(("started_s", "outages"), [(5, 0), (15, 1), (25, 0)])
def test_a_restart_before_or_after_all_requests_of_groups_is_no_outage_of_the_trace(
    started_s, outages
):
    """The log has other requests at 1 s and at 30 s."""
    first, last = (line("METADATA", 12, {}, {}, 1000 * s) for s in (1, 30))
    lines = [first, commit(0, ms=10_000), commit(0, ms=20_000), last]
    made = import_request_log(lines, started_ms=[SECOND_0_MS + 1000 * started_s])
    assert len(made.outages) == outages
    assert len(failovers_at(made)) == 2 * outages


def test_what_the_broker_did_while_a_request_was_in_its_queue_stands_before_the_request():
    """The request came at 20 ms, was handled at 32 ms, and answered at 40 ms."""
    queued = commit(0, ms=40).replace('"totalTimeMs": 0.5', '"totalTimeMs": 20')
    queued = queued.replace('"requestQueueTimeMs": 0.1', '"requestQueueTimeMs": 12')
    made = import_request_log([commit(0, ms=10), queued], removals=[Removal(SECOND_0_MS + 25)])
    assert [(event["at"], event["op"]) for event in events(made)] == [
        (0, "offset_commit"), (17, "cleanup"), (23, "offset_commit"),
    ]  # fmt: skip


def test_removals_and_outages_are_in_the_order_of_their_times():
    commits = [commit(0, ms=1000 * s, connection=f"{AT}:{where}")
               for s, where in [(1, "4000-0-3"), (3, "4000-0-3"), (9, "5000-0-3")]]  # fmt: skip
    removed = [Removal(SECOND_0_MS + ms) for ms in (2000, 9500)]
    made = import_request_log([*commits, commit(0, ms=11_000)], removals=removed)
    assert [event["op"] for event in events(made)] == [
        "offset_commit", "cleanup", "offset_commit", "failover", "failover", "failover",
        "offset_commit", "cleanup", "offset_commit",
    ]  # fmt: skip
    at = [event["at"] for event in events(made)]
    assert at == sorted(at)


def test_equal_removals_of_one_millisecond_are_one():
    """A broker has a line for each of its offsets partitions, or for each group that ends."""
    cleaned = "MetadataManager brokerId=1]: Removed 7 expired offsets in 2 milliseconds."
    deleted = "Coordinator 1]: Removed 1 offsets associated with deleted partitions: t-0. (k)"
    dead = "MetadataManager brokerId=1]: Group a b transitioned to Dead in generation 7 (k)"
    found = removals(
        f"[2026-01-01 00:00:00,{ms:03d}] INFO [Group{what}\n"
        for ms, what in [(1, cleaned), (1, cleaned), (2, cleaned), (2, deleted), (2, deleted),
                         (3, dead)]
    )  # fmt: skip
    only = (("t", 0),)
    assert [(removal.at_ms - SECOND_0_MS, removal.partitions) for removal in found] == [
        (1, ()), (2, ()), (2, only), (3, ()),
    ]  # fmt: skip


def answers(made):
    return [one["error"] for one in run_trace(made.trace) if one["event"] == "response"]


def test_no_session_ends_while_the_broker_is_down_however_long():
    settings = {"group.initial.rebalance.delay.ms": 0}
    lived = import_request_log(member(1, (3, 40, 45), "5000-1-1"), settings)
    assert answers(lived) == ["NONE", "NONE", "NONE", *["UNKNOWN_MEMBER_ID"] * 2]
    lines = [*member(1, (), ""), commit(0, ms=3000, group="h", connection=f"{AT}:4000-0-3")]
    lines += list(member(1, (40, 45), "5000-0-3"))[2:]
    restarted = import_request_log(lines, settings)
    assert len(restarted.outages) == 1
    assert set(answers(restarted)) == {"NONE"}
    # A session that ends after the restart does: it counts anew from there.
    lines.append(list(member(1, (52,), "5000-0-3"))[2])
    assert answers(import_request_log(lines, settings))[-1] == "UNKNOWN_MEMBER_ID"


def test_classic_groups_of_a_4x_broker_are_answered_as_it_did_over_its_restart(tmp_path):
    settings = ("group.initial.rebalance.delay.ms=500", "group.min.session.timeout.ms=1000",
                "coterie.behaviour=3.9")  # fmt: skip
    options = [word for setting in settings for word in ("--set", setting)]
    log = GOLDEN / "incidents" / "protocols" / "kafka-request.log.gz"
    made = coterie_ok("trace", "import", log, "--out", tmp_path, *options)
    for group in ("moved", "idle", "vault", "plain"):
        assert f"group '{group}': of a newer protocol" in made.stderr
    for group in ("till", "clash", "solo"):
        assert f"'{group}'" not in made.stderr
    coterie_ok("trace", "run", tmp_path, "--out", tmp_path)
    ran = coterie_ok("trace", "diff", "--responses", tmp_path, tmp_path)
    assert ran.stdout == "1 passed, 0 failed\n"

    truth = json.loads((log.parent / "truth.json").read_text())
    stops, started = (
        next(event["at_ms"] for event in truth if event["what"] == f"broker {what}")
        for what in ("stops", "started")
    )
    (down,) = (line for line in made.stderr.splitlines() if line.startswith("the broker was down"))
    last, first = (utc_ms(text) for text in TIME.findall(down))
    assert stops - 2_000 <= last <= stops + 5_000
    assert started - 5_000 <= first <= started + 5_000

    server = coterie_ok(
        "trace", "import", log, "--out", tmp_path, "--server-log", log.with_name("server.log.gz"),
        "--overwrite", *options,
    )  # fmt: skip
    assert "the broker was down" in server.stderr
    coterie_ok("trace", "run", tmp_path, "--out", tmp_path, "--overwrite")
    coterie_ok("trace", "diff", "--responses", tmp_path, tmp_path)


def test_sessions_count_from_when_the_groups_were_loaded_as_the_server_log_tells(tmp_path):
    # Loaded 3.7 s before it took requests: sessions of 4 s (README) had nearly ended by then.
    log = GOLDEN / "incidents" / "broker-killed" / "kafka-request.log.gz"
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    options = [word for setting in settings for word in ("--set", setting)]
    server = ("--server-log", log.with_name("server.log.gz"))
    coterie_ok("trace", "import", log, "--out", tmp_path, *server, *options)
    coterie_ok("trace", "run", tmp_path, "--out", tmp_path)
    ran = coterie_ok("trace", "diff", "--responses", tmp_path, tmp_path)
    assert ran.stdout == "1 passed, 0 failed\n"


@pytest.mark.parametrize("text", ["some text", None], ids=["text", "a request log"])
def test_another_file_is_no_server_log_and_nothing_is_written(text, tmp_path):
    log = GOLDEN / "request-log" / "kafka-request.log.gz"
    other = log
    if text is not None:
        other = tmp_path / "server.log"
        other.write_text(text)
    importing = "trace", "import", log, "--server-log", other, "--out", tmp_path / "out"
    fails(*importing, says=f"{other}: no line is understood, as line 1: ")
    assert not (tmp_path / "out").exists()


def test_offsets_expire_when_the_server_log_says_so(tmp_path):
    log = GOLDEN / "incidents" / "skipped-records" / "kafka-request.log.gz"
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
                "offsets.retention.minutes=1")  # fmt: skip
    options = [word for setting in settings for word in ("--set", setting)]
    server = ("--server-log", log.with_name("server.log.gz"))
    coterie_ok("trace", "import", log, "--out", tmp_path, *server, *options)
    coterie_ok("trace", "run", tmp_path, "--out", tmp_path)
    ran = coterie_ok("trace", "diff", "--responses", tmp_path, tmp_path)
    assert ran.stdout == "1 passed, 0 failed\n"
