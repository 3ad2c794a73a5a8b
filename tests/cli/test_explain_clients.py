"""How many clients `explain` names, and who sent a reset, as the request log says."""

import pytest

from support.commandline import coterie_ok, fails
from support.insight.lives import commit, life, member, written
from support.request_lines import commit as commit_line

AT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where a request log of the tests begins


def of_clients(folder, number):
    members = [member(f"m-{n}", clientId=f"c{n:02}", held={}) for n in range(number)]
    return written(folder, life(AT_MS, 1, *members))


@pytest.mark.parametrize(
    ("clients", "options", "named", "more"),
    [
        (20, (), 20, None),
        (21, (), 20, "1 more client: --clients all shows them"),
        (45, (), 20, "25 more clients: --clients all shows them"),
        (45, ("--clients", "all"), 45, None),
        (45, ("--clients", "3"), 3, "42 more clients: --clients all shows them"),
        (45, ("--clients", "0"), 0, "45 more clients: --clients all shows them"),
        (2, ("--clients", "3"), 2, None),
    ],
)
def test_the_clients_with_most_rebalances_are_named_and_the_others_counted(
    clients, options, named, more, tmp_path
):
    lines = coterie_ok("explain", of_clients(tmp_path, clients), *options).stdout.splitlines()
    assert sum(": joined 1, left 0" in line for line in lines) == named
    assert [line.strip() for line in lines if "more client" in line] == ([more] if more else [])


def test_every_client_is_in_the_data(tmp_path):
    rows = coterie_ok("explain", of_clients(tmp_path, 45), "--format", "csv").stdout
    assert rows.count(",client,") == 45


@pytest.mark.parametrize("value", ["-1", "many", "", "1.5", "9" * 5_000])
def test_another_number_of_clients_is_wrong_usage(value, tmp_path):
    says = "write 50, or all"
    fails("explain", of_clients(tmp_path, 1), "--clients", value, status=2, says=says)


OUTSIDE = {"memberId": "", "generationId": -1}


@pytest.mark.parametrize(
    ("line", "by"),
    [
        (commit_line(0, ms=20_001, **OUTSIDE), "by c (10.0.0.2), outside of the group"),
        (commit_line(27, 0, ms=20_001, **OUTSIDE), "by c (10.0.0.2), outside of the group"),
        (commit_line(0, ms=22_001, **OUTSIDE), "by c (10.0.0.2), outside of the group"),
        (commit_line(0, ms=22_501, **OUTSIDE), None),  # at another time
        (commit_line(27, ms=20_001, **OUTSIDE), None),  # refused
        (commit_line(0, ms=20_001, group="h", **OUTSIDE), None),
        (commit_line(0, ms=20_001, memberId="a-1", generationId=3), None),
    ],
)
def test_a_reset_names_the_client_that_sent_it(line, by, tmp_path):
    appends = [
        life(AT_MS, 1, member("a-1")),
        commit(AT_MS + 5_000, {0: 70}),
        life(AT_MS + 10_000, 2),
        commit(AT_MS + 20_000, {0: 10}),
    ]
    log = written(tmp_path / "log", *appends)
    (tmp_path / "requests.log").write_text(line + "\n")
    shown = coterie_ok("explain", log, "--request-log", tmp_path / "requests.log").stdout
    (reset,) = (row for row in shown.splitlines() if " reset " in row)
    tool = "by a tool or a consumer outside of the group: it had no members"
    assert (f"{by} [request log]" if by else tool) in reset
    assert (tool in reset) == (by is None)
