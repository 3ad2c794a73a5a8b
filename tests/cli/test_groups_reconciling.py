"""``groups --members`` of a consumer group that reconciles, in a log of Kafka's own records."""

import json

from support.commandline import coterie_ok
from support.insight import trace_causes

AT = trace_causes.START_MS + 15_000  # A has been told to give up 3 partitions, and B waits


def described(tmp_path, *options):
    log = trace_causes.log_of(tmp_path / "log", "scenarios/rebalance-timeout")
    view = ("groups", log, "--describe", "--group", "g", "--members")
    return coterie_ok(*view, "--at", AT, *options)


def test_who_has_to_give_up_what_and_who_waits_is_on_standard_error(tmp_path):
    result = described(tmp_path)
    assert "TO-GIVE-UP" not in result.stdout  # which stays Kafka's
    _, late = result.stderr.split("Members of group 'g' without their target:\n")
    assert [line.split() for line in late.strip().splitlines()][1:] == [
        ["g", "A", "unrevoked_partitions", "1", "2", "t:0,1,2", "t:3,4,5", "t:0,1,2"],
        ["g", "B", "unreleased_partitions", "2", "2", "-", "-", "t:3,4,5"],
    ]


def test_data_has_the_state_of_each_member_and_what_it_has_to_give_up(tmp_path):
    rows = json.loads(described(tmp_path, "--format", "json").stdout)
    assert [(row["member_state"], row["pending_revocation"]) for row in rows] == [
        ("unrevoked_partitions", {"t": [3, 4, 5]}),
        ("unreleased_partitions", {}),
    ]
