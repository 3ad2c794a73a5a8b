"""A log that a real broker compacted twice, against the output of Kafka's tools at the time."""

import json
import re

import pytest

from coterie.base.times import format_time
from support.commandline import coterie, coterie_ok, fails
from support.golden_data import incident, truth

INCIDENT = "compaction"
LOG = incident(INCIDENT)
TRUTH = truth(INCIDENT)
SAMPLES = {sample["label"]: sample for sample in TRUTH["samples"]}
EARLIER = ("early", "between the rounds", "before the copy")
LATER = ("after the copy, 1", "after the copy, 2")
# The group ``doomed`` had committed and left in order; it was deleted later.
(DOOMED_HAD_OFFSETS_MS,) = (
    event["at_ms"]
    for event in TRUTH["events"]
    if (event["what"], event.get("member")) == ("process closed in order", "doomed-1")
)
(COPIED_MS,) = (event["at_ms"] for event in TRUTH["events"] if event["what"] == "copied")


def ends_of(home, *labels):
    """A file of end offsets from kafka-get-offsets, each with its time."""
    lines = ["time,topic,partition,offset"]
    for label in labels:
        sample = SAMPLES[label]
        for topic, partition, end in sample["end_offsets"]:
            lines.append(f"{sample['at_ms']},{topic},{partition},{end}")
    file = home / "ends.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def lags(log, file, *options):
    """Time, group, topic, partition -> the row."""
    arguments = ("lag", log, "--end-offsets", file, "--format", "json", *options)
    rows = json.loads(coterie_ok(*arguments).stdout)
    names = ("time", "group_id", "topic", "partition")
    return {tuple(row[name] for name in names): row for row in rows}


def described(*labels):
    """The same -> offset, end offset and lag, by kafka-consumer-groups."""
    return {
        (SAMPLES[label]["at_ms"], *line[:3]): tuple(line[3:])
        for label in labels
        for line in SAMPLES[label]["described"]
    }


def told(row):
    return row["offset"], row["end_offset"], row["lag"]


def test_of_the_whole_log_every_lag_is_kafkas(tmp_path):
    file = ends_of(tmp_path, *EARLIER)
    actual = lags(LOG / "whole", file, "--log-until", COPIED_MS)
    for place, line in described(*EARLIER).items():
        assert actual[place]["status"] == "ok"
        assert told(actual[place]) == line


def test_of_what_is_left_a_lag_is_kafkas_or_not_known(tmp_path):
    file = ends_of(tmp_path, *EARLIER)
    actual = lags(LOG / "compacted", file, "--log-until", COPIED_MS)
    trusted = {row["group_id"]: row["trusted_from"] for row in actual.values()}
    trusted = {row["group_id"]: row["trusted_from"] for row in actual.values()}
    unknown = 0
    for place, line in described(*EARLIER).items():
        row = actual.get(place)
        if row is None or row["status"] == "compacted":
            assert place[0] < trusted[place[1]]
            unknown += 1
        else:
            assert row["status"] == "ok"
            assert told(row) == line
    assert 0 < unknown < len(described("early", "between the rounds"))


def test_the_segments_that_the_cleaner_replaced_give_back_what_it_took(tmp_path):
    file = ends_of(tmp_path, *EARLIER[1:])
    arguments = ("--include-deleted", "--log-until", COPIED_MS)
    actual = lags(LOG / "with-deleted", file, *arguments)
    for place, line in described(*EARLIER[1:]).items():
        assert told(actual[place]) == line


def test_a_sample_of_after_the_copy_gives_no_lag_but_what_it_is_at_most(tmp_path):
    file = ends_of(tmp_path, *LATER)
    for options in ((), ("--log-until", COPIED_MS)):
        actual = lags(LOG / "compacted", file, *options)
        wrong = 0
        for place, (_, _, lag) in described(*LATER).items():
            row = actual[place]
            assert (row["status"], row["lag"]) == ("beyond_log", None)
            assert row["lag_max"] >= lag
            wrong += row["lag_max"] > lag
        assert wrong > 10  # lags computed from the log's last commits were not Kafka's


def test_every_format_says_that_a_lag_is_not_known(tmp_path):
    file = ends_of(tmp_path, LATER[1])
    arguments = ("lag", LOG / "compacted", "--group", "billing", "--end-offsets", file)
    table = coterie_ok(*arguments)
    assert "beyond_log" in table.stdout
    assert "<= " in table.stdout
    assert "3 of 3 lags are not known: 3 beyond_log" in table.stderr
    head, *lines = coterie_ok(*arguments, "--format", "csv").stdout.splitlines()
    for line in lines:
        row = dict(zip(head.split(","), line.split(","), strict=True))
        assert (row["lag"], row["status"]) == ("", "beyond_log")
        assert int(row["lag_max"]) > 0
    metrics = coterie_ok("metrics", LOG / "compacted", "--end-offsets", file)
    assert "kafka_consumergroup_lag{" not in metrics.stdout
    assert re.search(r"(\d+) of \1 lags are not known: \1 beyond_log\n", metrics.stderr)
    arguments = ("metrics", LOG / "compacted", "--end-offsets", file, "--format", "json")
    rows = json.loads(coterie_ok(*arguments).stdout)
    assert {row["lag_status"] for row in rows if row["end_offset"] is not None} == {"beyond_log"}


def test_a_time_after_the_log_is_refused_with_what_the_log_covers(tmp_path):
    file = tmp_path / "ends.txt"
    file.write_text("orders:0:870\n")
    late = SAMPLES[LATER[0]]["at_ms"]
    arguments = ("lag", LOG / "compacted", "--end-offsets", file, "--at", late)
    fails(*arguments, status=2, says="is after the log ends: the log covers ")
    fails(
        *arguments, "--log-until", 5, status=2, says="--log-until 1970-01-01T00:00:00.005Z is too"
    )
    assert lags(LOG / "compacted", file, "--at", late, "--log-until", late)


def test_undo_says_which_offsets_of_then_are_lost(tmp_path):
    at_ms = SAMPLES["early"]["at_ms"]
    true = {tuple(line[:3]): line[3] for line in SAMPLES["early"]["described"]}
    arguments = ("undo", LOG / "compacted", "--all-groups", "--at", at_ms)
    done = coterie_ok(*arguments, "--format", "json")
    for row in json.loads(done.stdout):
        if row["offset"] is not None:
            assert true[row["group_id"], row["topic"], row["partition"]] == row["offset"]
        else:
            assert row["change"] == "unknown"
    assert "trusted since" in done.stderr
    fails("undo", LOG / "compacted", "--group", "billing", "--at", at_ms, says="was compacted")


def test_undo_does_not_say_that_a_group_deleted_since_then_had_no_offset():
    at_ms = DOOMED_HAD_OFFSETS_MS
    whole = coterie_ok("undo", LOG / "whole", "--group", "doomed", "--at", at_ms)
    assert len(whole.stdout.splitlines()) == 2
    arguments = ("undo", LOG / "compacted", "--group", "doomed", "--at", at_ms)
    fails(*arguments, says="which there were is not known")
    # After its deletion, which the whole log shows, it had none.
    arguments = ("undo", LOG / "whole", "--group", "doomed", "--at", COPIED_MS)
    fails(*arguments, says="nothing to go back to")


def test_a_group_of_before_the_cleaning_is_not_said_to_be_missing():
    at_ms = SAMPLES["early"]["at_ms"]
    arguments = ("groups", LOG / "compacted", "--describe", "--group", "doomed", "--at", at_ms)
    done = coterie(*arguments)
    assert done.returncode == 1
    assert "does not exist" not in done.stderr
    assert "whether it existed then is not known" in done.stderr
    assert "trusted since" in done.stderr
    done = coterie("groups", LOG / "compacted", "--describe", "--group", "doomed")
    assert "Error: Consumer group 'doomed' does not exist." in done.stderr


@pytest.mark.parametrize("command", ["explain", "audit", "expire", "metrics", "growth"])
def test_answers_about_the_past_say_since_when_they_can_be_trusted(command):
    done = coterie(command, LOG / "compacted", "--format", "json")
    rows = json.loads(done.stdout)
    trusted = {row["offsets_partition"]: row["trusted_from"] for row in rows}
    assert None not in trusted.values()
    for number in trusted:
        assert f"coterie: partition {number}: trusted since " in done.stderr
    done = coterie(command, LOG / "whole", "--format", "json")
    assert {row["trusted_from"] for row in json.loads(done.stdout)} <= {None}
    assert "trusted" not in done.stderr


def test_an_audit_finds_nothing_only_since_the_log_is_whole():
    arguments = ("audit", LOG / "compacted", "--only", "large_metadata")
    latest = max(row["trusted_from"] for row in json.loads(coterie_ok(*EXPLAINED).stdout))
    done = coterie_ok(*arguments)
    assert done.stdout == f"nothing found since {format_time(latest)}; compacted before\n"
    arguments = ("audit", LOG / "whole", "--only", "large_metadata")
    assert coterie_ok(*arguments).stdout == "nothing found\n"


def test_rebalances_are_counted_since_the_log_is_whole():
    rows = json.loads(coterie_ok(*EXPLAINED).stdout)
    (summary,) = (row for row in rows if (row["group_id"], row["event"]) == ("payments", "summary"))
    since = format_time(summary["trusted_from"])
    assert summary["cause"].endswith(f"since {since}; compacted before")
    joined = [event for event in TRUTH["events"] if event.get("group") == "payments"]
    assert summary["count"] == sum(event["at_ms"] >= summary["trusted_from"] for event in joined)


EXPLAINED = ("explain", LOG / "compacted", "--format", "json")


def test_where_the_replaced_segments_still_lie_there_that_is_reported():
    done = coterie("expire", LOG / "with-deleted", "--group", "billing")
    assert "--include-deleted reads what compaction took" in done.stderr
    done = coterie("expire", LOG / "with-deleted", "--group", "billing", "--include-deleted")
    assert "left alone" not in done.stderr
