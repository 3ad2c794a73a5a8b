"""How long a rebalance took: exact by a server log, or bounded by two records."""

import pytest

from coterie.base.user_files import open_lines
from coterie.insight.questions import explain
from coterie.insight.questions.server_log import read_server_log
from coterie.insight.records.partition_view import read_partitions
from support.commandline import coterie_ok
from support.golden_data import GOLDEN
from support.insight.broker_session import SERVER, made_log
from support.insight.lives import commit, life, member, written

INCIDENTS = GOLDEN / "incidents"


def rows_of(folder, **parameters):
    for view in read_partitions([folder]):
        yield from explain.rows(view, explain.Parameters(**parameters))


def generations(folder, **parameters):
    return {
        (row["group_id"], row["log_offset"]): (row["duration_ms"], row["duration_source"])
        for row in rows_of(folder, **parameters)
        if row["event"] == "generation"
    }


def told_by(server_log):
    with open_lines(server_log) as lines:
        return tuple(read_server_log(lines))


@pytest.mark.parametrize("incident", ["crash-loop", "two-applications", "broker-killed", "session"])
def test_no_bound_of_the_records_lies_below_what_the_broker_logged(incident, tmp_path):
    log, server = INCIDENTS / incident / "log", INCIDENTS / incident / "server.log.gz"
    if incident == "session":
        log, server = made_log(tmp_path), SERVER
    exact, bounds = generations(log, broker_log_lines=told_by(server)), generations(log)
    assert exact.keys() == bounds.keys()
    compared = 0
    for place, (took_ms, source) in exact.items():
        at_most_ms, bound = bounds[place]
        if source == "server log" and at_most_ms is not None:
            assert bound == "records"
            assert took_ms <= at_most_ms
            compared += 1
    assert compared
    # Most have commits between them: records give no bound for those.
    assert any(bounds[place][0] is None for place in exact)


def test_a_bound_is_shown_only_where_two_records_of_the_group_enclose_the_time(tmp_path):
    lives = [
        life(1000, 1, member("a"), state_ms=990),
        life(4000, 2, member("a"), member("b"), state_ms=3990),
        commit(5000, {0: 7}),
        life(9000, 3, member("a"), state_ms=8930),
    ]
    log = written(tmp_path, *lives)
    assert [bound for bound, _ in generations(log).values()] == [None, 3000, None]
    shown = coterie_ok("explain", log).stdout.splitlines()
    ends = [line.split()[-3:] for line in shown if " generation " in line]
    assert [line[-1] for line in ends] == ["-", "s", "-"]
    assert ends[1] == ["<", "3.000", "s"]
    assert "without an assignment" not in shown[-3]


def test_the_time_without_members_is_reported_as_that(tmp_path):
    log = written(tmp_path, life(1000, 1, member("a")), life(2000, 2), life(4500, 3, member("b")))
    line = next(
        line for line in coterie_ok("explain", log).stdout.splitlines() if " empty " in line
    )
    assert line.split("no members for ")[1].split() == ["2.500", "s", "-"]


def test_the_summary_adds_up_what_the_server_log_says(tmp_path):
    log = made_log(tmp_path)
    *_, summary = (
        row
        for row in rows_of(log, broker_log_lines=told_by(SERVER))
        if row["group_id"] == "orders-app"
    )
    # From each "Preparing to rebalance" to the leader's assignment, by hand from server.log.gz.
    assert summary["duration_ms"] == 1041 + 206 + 401 + 989 + 332
    assert summary["duration_source"] == "server log"
