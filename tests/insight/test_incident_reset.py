"""A reset by Kafka's own tool, undone: against the output of kafka-consumer-groups before it."""

import csv
import json

import pytest

from coterie.base.times import format_time
from support.commandline import coterie_ok
from support.golden_data import incident, truth

LOG = incident("reset-while-empty") / "log"
TRUTH = truth("reset-while-empty")
SAMPLES = {sample["label"]: sample for sample in TRUTH["samples"]}
(RESET,) = (event for event in TRUTH["events"] if event["what"] == "kafka-consumer-groups")
UNDO = ("undo", LOG, "--group", "payments", "--until", SAMPLES["after the reset"]["at_ms"])


def offsets(label):
    return {
        (topic, str(partition), str(offset))
        for group, topic, partition, offset, *_ in SAMPLES[label]["described"]
        if group == "payments"
    }


def restored(output):
    return {tuple(line) for line in csv.reader(output.stdout.splitlines())}


@pytest.fixture(scope="module")
def reset_ms():
    """The time of the reset's records, by ``explain``."""
    result = coterie_ok("explain", LOG, "--group", "payments", "--format", "json")
    (row,) = (row for row in json.loads(result.stdout) if row["event"] == "reset")
    assert RESET["since_ms"] <= row["timestamp"] <= RESET["at_ms"]
    return row["timestamp"]


def test_at_the_time_of_the_reset_the_reset_is_restored_and_that_is_warned_of(reset_ms):
    result = coterie_ok(*UNDO, "--at", reset_ms)
    assert restored(result) == offsets("after the reset")
    assert (
        f"group 'payments': 3 partitions had gone back at {format_time(reset_ms)}, and this "
        f"restores the rewind; --before {format_time(reset_ms)} gives what was before it"
    ) in result.stderr


def test_before_the_time_of_the_reset_is_what_was_before_it(reset_ms):
    result = coterie_ok(*UNDO, "--before", reset_ms)
    assert restored(result) == offsets("before the reset")
    assert "--before" not in result.stderr


def test_a_rewind_of_long_before_is_no_reason_to_warn(reset_ms):
    result = coterie_ok("undo", LOG, "--group", "payments", "--at", reset_ms + 60_000)
    assert restored(result) == offsets("at the end")
    assert "gone back" not in result.stderr


def test_of_an_empty_group_it_says_when_what_is_restored_expires(reset_ms):
    rows = json.loads(coterie_ok(*UNDO, "--before", reset_ms, "--format", "json").stdout)
    (expires_ms,) = {row["expires_at"] for row in rows}
    stopped = [e["at_ms"] for e in TRUTH["events"] if e["what"] == "process closed in order"]
    assert min(stopped) - 2000 <= expires_ms - 7 * 86_400_000 <= max(stopped) + 2000
    result = coterie_ok(*UNDO, "--before", reset_ms)
    assert f"restored offsets expire at {format_time(expires_ms)}" in result.stderr
    result = coterie_ok(*UNDO, "--before", reset_ms, "--retention", "1d")
    assert f"expire at {format_time(expires_ms - 6 * 86_400_000)}" in result.stderr


def test_a_group_that_has_members_again_keeps_what_is_restored(reset_ms):
    result = coterie_ok("undo", LOG, "--group", "payments", "--before", reset_ms)
    assert "is Stable" in result.stderr
    assert "expire" not in result.stderr


def test_what_was_committed_before_since_is_not_put_back(reset_ms):
    result = coterie_ok(*UNDO, "--before", reset_ms, "--since", reset_ms)
    assert restored(result) == offsets("before the reset")
    result = coterie_ok(*UNDO, "--before", reset_ms, "--since", reset_ms + 1, "--against-latest")
    assert result.stdout == ""
