"""Groups that change their protocol, and static members of the newer one, against the orders."""

import pytest

from coterie.insight.questions import explain
from support.insight.incident import client_event, command_rows, span, truth, within


@pytest.fixture(scope="module")
def rows():
    """The rows of each group, without the summaries."""
    result = {}
    for row in command_rows("explain"):
        if row["event"] in explain.SUMMARIES:
            continue
        result.setdefault(row["group_id"], []).append(row)
    return result


def events(rows, *names):
    return [row for row in rows if row["event"] in names]


def who(row, *whats):
    """The clients of a row's causes of this kind."""
    return {cause["client_id"] for cause in row["causes"] if cause["what"] in whats}


def test_an_upgrade_is_reported_with_whom_it_took_along(rows):
    (upgraded,) = events(rows["moved"], "upgraded")
    assert within(upgraded, ("start", "app-3"), ("assigned", "app-3"))
    assert who(upgraded, "carried_on") == {"app-1", "app-2"}
    assert (upgraded["member_count"], upgraded["protocol"]) == (2, "consumer")
    after = rows["moved"][rows["moved"].index(upgraded) + 1]
    assert after["generation"] == client_event("assigned", "app-3")["generation"]
    assert who(after, "joined") == {"app-3"}
    assert after["previous_generation"] == upgraded["generation"] == 2


def test_a_downgrade_is_reported_with_whom_it_took_along_and_who_was_the_last(rows):
    (downgraded,) = events(rows["moved"], "downgraded")
    assert within(downgraded, ("stop", "app-4"), ("stopped", "app-4"))
    assert who(downgraded, "carried_on") == {"app-5"}
    assert who(downgraded, "left_or_evicted") == {"app-4"}
    assert (downgraded["member_count"], downgraded["protocol"]) == (1, "range")
    assert downgraded["generation"] == downgraded["previous_generation"] == 8


def test_nobody_joins_or_leaves_a_group_but_when_it_did(rows):
    """Each client of each change joins once, and leaves once if it was stopped."""
    for group, prefix in (("moved", "app-"), ("idle", "idle-")):
        for what, kinds, ends in (
            ("start", ("joined",), "assigned"),
            ("stop", ("left_or_evicted",), "stopped"),
        ):
            theirs = {e["name"] for e in truth() if e["what"] == what and prefix in e["name"]}
            done = [(name, row) for row in rows[group] for name in who(row, *kinds)]
            assert sorted(name for name, _ in done) == sorted(theirs)
            for name, row in done:
                begin, end = span((what, name), (ends, name))
                # A classic group writes it when its other members have rejoined, after 1 s.
                assert begin <= row["timestamp"] <= end + 3_000


def test_a_group_without_members_changes_its_protocol_too(rows):
    upgraded, downgraded = events(rows["idle"], "upgraded", "downgraded")
    assert within(upgraded, ("start", "idle-2"), ("assigned", "idle-2"))
    assert within(downgraded, ("start", "idle-3"), ("assigned", "idle-3"))
    assert (upgraded["member_count"], downgraded["member_count"]) == (0, 0)
    assert upgraded["cause"].endswith("no members")
    # The time without members ends when the group changes its protocol.
    empty = events(rows["idle"], "empty")
    (gone,) = (row for row in empty if "idle-1" in who(row, "left_or_evicted"))
    assert gone["until"] == upgraded["timestamp"]


def test_no_group_was_deleted(rows):
    assert not [row for theirs in rows.values() for row in events(theirs, "deleted")]


def test_an_epoch_is_reconciled_when_the_last_of_its_clients_was_told(rows):
    """`app-3` gets its partitions after `app-1` and `app-2` have given up theirs."""
    (row,) = (row for row in events(rows["moved"], "epoch") if "app-3" in who(row, "joined"))
    times = [
        e
        for e in truth()
        if row["timestamp"] <= e["at_ms"] <= client_event("stop", "app-1")["at_ms"]
    ]
    given_up = max(e["at_ms"] for e in times if e["what"] == "revoked" and "app-" in e["name"])
    got = max(e["at_ms"] for e in times if (e["what"], e["name"]) == ("assigned", "app-3"))
    assert given_up <= row["until"] <= got


@pytest.mark.parametrize(("before", "after"), [("vault-a", "vault-a2"), ("vault-a2", "vault-a3")])
def test_a_static_replacement_stands_at_its_own_time_and_epoch(rows, before, after):
    (row,) = (
        row for row in events(rows["vault"], "static_replacement") if after in who(row, "replaced")
    )
    assert within(row, ("start", after), ("assigned", after))
    assert row["generation"] == client_event("assigned", after)["generation"]
    replaced, changed = row["causes"]
    assert replaced["member_id"] == client_event("assigned", after)["member_id"]
    assert replaced["detail"] == client_event("assigned", before)["member_id"]
    assert replaced["group_instance_id"] == "s-1"
    assert (changed["what"], changed["detail"]) == (
        "member_changed", f"client id {before} to {after}",
    )  # fmt: skip
    (left,) = (
        row for row in events(rows["vault"], "static_leave") if before in who(row, "static_left")
    )
    assert within(left, ("stop", before), ("stopped", before))
    assert left["member_count"] == row["member_count"] == 2


def test_only_who_changed_the_subscription_is_reported_to_have_done_so(rows):
    changes = [
        (row, cause)
        for row in rows["vault"]
        for cause in row["causes"]
        if cause["what"] == "subscription_changed"
    ]
    ((row, cause),) = changes
    assert (cause["client_id"], cause["detail"]) == ("vault-b", "+payments")
    assert row["generation"] == 3
    assert row["timestamp"] >= client_event("subscribe", "vault-b")["at_ms"]


def test_a_static_member_that_does_not_come_back_is_gone_when_its_session_ends(rows):
    (row,) = (row for row in events(rows["vault"], "epoch") if who(row, "left_or_evicted"))
    assert who(row, "left_or_evicted") == {"vault-a3"}
    assert row["timestamp"] - client_event("stop", "vault-a3")["at_ms"] >= 5_000  # a session of 6 s
    assert "had left for now, and did not come back" in row["cause"]
    assert [row["generation"] for row in events(rows["vault"], "epoch")] == [1, 2, 3, 4]


def test_a_change_of_the_protocol_is_no_rebalance_and_no_second_application():
    """Epochs and generations that completed: 1 and 2, 3 to 8, 9 on."""
    last = max(
        e["generation"] for e in truth() if e["name"].startswith("app-") and "generation" in e
    )
    (summary,) = (
        row for row in command_rows("explain", "--group", "moved") if row["event"] == "summary"
    )
    (gone,) = (
        row
        for row in command_rows("explain", "--group", "moved")
        if row["event"] == "generation" and "app-6" in who(row, "left_or_evicted")
    )
    assert summary["count"] == gone["generation"] == last
    actual = {row["group_id"]: row for row in command_rows("audit", "--only", "protocols")}
    assert set(actual) == {"moved", "idle"}
    for group, row in actual.items():
        first = next(
            one for one in command_rows("explain", "--group", group) if one["event"] == "upgraded"
        )
        # In the other group no member carried on: each time may be another application.
        whose = "one application" if group == "moved" else "a group"
        assert row["detail"].startswith(f"{whose} that changed its protocol: upgraded from")
        assert (row["log_offset"], row["count"]) == (first["log_offset"], 2)


def test_static_members_that_are_restarted_do_not_flap():
    rows = command_rows("explain", "--flap-count", "3")
    assert not [row for row in rows if row["event"] == "flapping" and row["group_id"] == "vault"]
    assert command_rows("audit", "--only", "flapping", "--flap-count", "3") == []
