"""The written truth of each recorded incident fits the log of the broker.

The truth is what clients and Kafka's tools reported at the time, so these tests check the reading
of the log as much as the recording.
"""

import json
import re
from functools import cache
from itertools import pairwise

import pytest

from support import golden_data
from support.commandline import coterie_ok

NAMES = golden_data.incidents()
RECORDED = [name for name in NAMES if name != "protocols"]  # whose truth has another form
SEVERAL_BROKERS = ("unclean-election",)  # which lost some of the commits that were answered
ONE_LOG = [name for name in RECORDED if name not in SEVERAL_BROKERS]
WITH_MEMBERS = [name for name in ONE_LOG if golden_data.truth(name)["members"]]
WITH_SAMPLES = [name for name in ONE_LOG if golden_data.truth(name)["samples"]]
FINDINGS = [
    (name, finding) for name in ONE_LOG for finding in golden_data.truth(name).get("findings", ())
]
JUMPS = [found for found in FINDINGS if found[1]["kind"] in ("skip", "repeat")]
REMOVALS = [found for found in FINDINGS if found[1]["kind"] == "removal"]
CLOCK_SLACK_MS = 100  # between a move of a broker's clock and the note of it


def commits_in(name):
    """Each record of a commit in the log as it was written: time, place, offset (None: gone)."""
    folder = golden_data.incident(name)
    (log,) = [path for path in (folder / "log", folder / "whole") if path.exists()]
    for line in coterie_ok("records", log).stdout.splitlines():
        record = json.loads(line)
        if (record.get("key") or {}).get("type") == "offset_commit":
            key, value = record["key"]["data"], record["value"]
            place = key["group"], key["topic"], key["partition"]
            yield record["timestamp"], place, value and value["data"]["offset"]


def copied_ms(name):
    events = golden_data.truth(name)["events"]
    (at_ms,) = [event["at_ms"] for event in events if event["what"] == "copied"]
    return at_ms


def broker_times(name, since_ms, until_ms):
    """The spans of the broker's clock that hold a span of the clients' clock."""
    clock = golden_data.truth(name).get("clock", [{"at_ms": 0, "offset_ms": 0}])
    ends = [*(entry["at_ms"] + CLOCK_SLACK_MS for entry in clock[1:]), float("inf")]
    for entry, end_ms in zip(clock, ends, strict=True):
        if entry["at_ms"] - CLOCK_SLACK_MS <= until_ms and since_ms <= end_ms:
            yield since_ms + entry["offset_ms"], until_ms + entry["offset_ms"]


def test_the_page_of_all_incidents_names_each():
    page = (golden_data.INCIDENTS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([a-z0-9-]+)` ", page, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", RECORDED)
def test_an_incident_has_its_page_its_truth_and_the_brokers_log(name):
    folder = golden_data.incident(name)
    assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
    assert golden_data.truth(name)["incident"] == name
    assert list(folder.glob("server*.log.gz"))


@pytest.mark.parametrize("name", WITH_MEMBERS)
def test_each_commit_that_was_answered_before_the_copy_is_in_the_log(name):
    times = {}
    for time_ms, place, offset in commits_in(name):
        times.setdefault((*place, offset), []).append(time_ms)
    until_ms = copied_ms(name)
    for commit in golden_data.client_commits(name):
        if commit["at_ms"] < until_ms:
            spans = list(broker_times(name, commit["since_ms"], commit["at_ms"]))
            for place, offset in commit["offsets"].items():
                topic, _, partition = place.rpartition("-")
                found = times[commit["group"], topic, int(partition), offset]
                assert any(a <= ms <= b for a, b in spans for ms in found), commit


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_what_kafkas_tool_said_before_the_copy_is_what_the_log_says_of_that_time(name):
    commits, until_ms = list(commits_in(name)), copied_ms(name)
    for sample in golden_data.truth(name)["samples"]:
        if sample["until_ms"] <= until_ms:
            last = {place: at for ms, place, at in commits if ms <= sample["at_ms"]}
            described = {(*row[:2], row[2]): row[3] for row in sample["described"]}
            assert {place: at for place, at in last.items() if at is not None} == described


def ids(found):
    name, finding = found
    return f"{name}-{finding['group']}-{finding.get('partition', '')}"


@cache
def offsets_by_place(name):
    """The commits of each place in order of the log: time, offset (None: a tombstone)."""
    places = {}
    for time_ms, place, offset in commits_in(name):
        places.setdefault(place, []).append((time_ms, offset))
    return places


@pytest.mark.parametrize("found", JUMPS, ids=ids)
def test_where_records_were_skipped_or_repeated_the_log_goes_on_elsewhere(found):
    name, finding = found
    place = tuple(finding[field] for field in ("group", "topic", "partition"))
    offsets = [offset for _, offset in offsets_by_place(name)[place]]
    last = len(offsets) - 1 - offsets[::-1].index(finding["committed"])
    after = [offset for offset in offsets[last + 1 :] if offset is not None]
    if finding["kind"] == "skip":
        assert after[0] >= finding["resumed"] > finding["committed"]
    elif after[0] < finding["committed"]:
        assert after[0] >= finding["resumed"]
    else:  # the first commit came when all had been read again
        assert offsets[last + 1] is None


@pytest.mark.parametrize("found", REMOVALS, ids=ids)
def test_a_removal_is_a_tombstone_for_each_offset_in_the_interval_of_the_truth(found):
    name, finding = found
    begin_ms, end_ms = finding["between_ms"]
    group, removed = finding["group"], {}
    for (of_group, topic, partition), commits in offsets_by_place(name).items():
        for (_, before), (time_ms, offset) in pairwise(commits):
            if of_group == group and offset is None and (begin_ms or 0) <= time_ms <= end_ms:
                removed[f"{topic}-{partition}"] = before
    assert removed
    assert removed == finding.get("places", removed)
