"""Samples of ``coterie metrics`` against what Kafka's own decode of the log gives by hand."""

import csv
import json

import pytest

from support.commandline import coterie, coterie_ok, fails
from support.golden_data import json_of, log, records, wide
from support.insight.models import commits_by_hand, offsets_at, rebalances_by_hand, times
from support.log_writer import batch, commit_key, commit_value

CASES = ["basic", "transactions", "compacted", "default50", "connect", "kip848"]
OFFSET, MEMBERS = "kafka_consumergroup_current_offset", "kafka_consumergroup_members"
COMMITS, TIMESTAMP = "kafka_consumer_group_commits", "kafka_consumer_group_commit_timestamp"
REBALANCES = "kafka_consumergroup_rebalances"


def samples(text):
    """Family -> (labels in the order of their names) -> value, as Prometheus' own client reads."""
    parser = pytest.importorskip("prometheus_client.parser")
    result = {}
    for family in parser.text_string_to_metric_families(text):
        values = {tuple(sorted(one.labels.items())): one.value for one in family.samples}
        assert len(values) == len(family.samples), f"{family.name}: two samples of one name"
        assert family.documentation
        result[family.name] = family.type, values
    return result


def metrics(*args):
    return samples(coterie_ok("metrics", *args).stdout)


def key_of(labels):
    named = dict(labels)
    group = named.get("consumergroup") or named.get("group")
    return group, named.get("topic"), named.get("partition") and int(named["partition"])


@pytest.mark.parametrize("case", CASES)
def test_offsets_commits_and_their_times_are_what_the_log_says_by_hand(case):
    groups = {group["group_id"] for group in json_of(case, "groups.json")["groups"]}
    actual = metrics(log(case))
    latest = offsets_at(case)
    kind, values = actual[OFFSET]
    assert kind == "gauge"
    assert {key_of(labels): value for labels, value in values.items()} == {
        key: value["offset"] for key, value in latest.items()
    }
    kind, values = actual[COMMITS]
    assert kind == "counter"
    counted = {key_of(labels): value for labels, value in values.items() if value}
    assert counted == {k: n for k, n in commits_by_hand(case).items() if k[0] in groups}
    timestamps = {key_of(labels): value for labels, value in actual[TIMESTAMP][1].items()}
    assert {key: timestamps[key] for key in latest} == {
        key: value["commitTimestamp"] / 1000 for key, value in latest.items()
    }


@pytest.mark.parametrize("case", ["basic", "transactions", "default50", "connect", "kip848"])
def test_members_and_states_are_those_that_kafka_loads(case):
    groups = json_of(case, "groups.json")["groups"]
    actual = metrics(log(case), "--names", "kafka_exporter", "--names", "kminion")
    member_counts = {key_of(labels)[0]: value for labels, value in actual[MEMBERS][1].items()}
    newer = {
        group for group in member_counts if group.startswith(("share-", "streams-"))
    }  # not listed there
    assert {group: count for group, count in member_counts.items() if group not in newer} == {
        group["group_id"]: len(group["members"]) for group in groups
    }
    info = actual["kminion_kafka_consumer_group_info"][1]
    states = {dict(labels)["group_id"]: (dict(labels), value) for labels, value in info.items()}
    for group in groups:
        labels, value = states[group["group_id"]]
        assert labels["state"] == group["state"]
        assert value == (group["state"] == "Stable")


@pytest.mark.parametrize("case", ["basic", "default50", "compacted"])
def test_rebalances_are_the_generations_of_the_log(case):
    kind, values = metrics(log(case))[REBALANCES]
    counts = {key_of(labels)[0]: value for labels, value in values.items() if value}
    by_hand = rebalances_by_hand(case)
    assert kind == "counter"
    assert counts == {group: count for group, count in by_hand.items() if group in counts}
    alive = {group["group_id"] for group in json_of(case, "groups.json")["groups"]}
    assert set(by_hand) & alive == set(counts)


def test_members_without_a_partition_are_counted():
    idle = {}
    for record in records("basic"):
        value = record["value"] and record["value"]["data"]
        if record["key"]["type"] == "group_metadata" and value:
            assigned = [member["assignment_decoded"] for member in value["members"]]
            idle[record["key"]["data"]["group"]] = sum(
                not any(topic["partitions"] for topic in one["data"]["assignedPartitions"])
                for one in assigned
            )
    values = metrics(log("basic"), "--names", "kminion")
    empty_members = values["kminion_kafka_consumer_group_empty_members"][1]
    actual = {dict(labels)["group_id"]: value for labels, value in empty_members.items()}
    assert {group: n for group, n in actual.items() if n} == {
        group: n for group, n in idle.items() if n and group in actual
    }
    assert actual["grp-too-many-members"] == 2


def test_by_topic_there_are_sums_and_nothing_of_a_partition():
    actual = metrics(log("basic"), "--granularity", "topic")
    assert not [
        name for name, (_, all_) in actual.items() for one in all_ if "partition" in dict(one)
    ]
    sums, counts, last = {}, {}, {}
    for (group, topic, _), value in offsets_at("basic").items():
        sums[group, topic] = sums.get((group, topic), 0) + value["offset"]
        time = value["commitTimestamp"] / 1000
        last[group, topic] = max(time, last.get((group, topic), 0))
    for (group, topic, _), count in commits_by_hand("basic").items():
        counts[group, topic] = counts.get((group, topic), 0) + count

    def told(name):
        return {key_of(labels)[:2]: value for labels, value in actual[name][1].items()}

    assert told("kafka_consumergroup_current_offset_sum") == sums
    assert {key: told(COMMITS)[key] for key in sums} == {key: counts[key] for key in sums}
    assert {key: told(TIMESTAMP)[key] for key in sums} == last


def test_the_offsets_as_of_a_time_are_those_of_then():
    for at_ms in times("transactions", 3):
        _, values = metrics(log("transactions"), "--at", at_ms).get(OFFSET, ("gauge", {}))
        then = {key: value["offset"] for key, value in offsets_at("transactions", at_ms).items()}
        assert {key_of(labels): value for labels, value in values.items()} == then


@pytest.mark.parametrize(
    ("option", "regex", "keeps"),
    [
        ("--group-filter", "^grp-mix", lambda key: key[0].startswith("grp-mix")),
        ("--group-exclude", "mix|java", lambda key: "mix" not in key[0] and "java" not in key[0]),
        ("--topic-filter", "orders$", lambda key: key[1].endswith("orders")),
        ("--topic-exclude", "o", lambda key: "o" not in key[1]),
    ],
)
def test_a_filter_keeps_what_it_says(option, regex, keeps):
    values = metrics(log("basic"), option, regex)[OFFSET][1]
    assert {key_of(labels) for labels in values} == {
        key for key in offsets_at("basic") if keeps(key)
    }
    assert values


def test_the_lag_is_there_where_end_offsets_are_and_no_sum_where_one_is_not_known(tmp_path):
    latest = {key: value["offset"] for key, value in offsets_at("basic").items()}
    ends = {key[1:]: 0 for key in latest}
    for key, offset in latest.items():
        ends[key[1:]] = max(ends[key[1:]], offset + 7)
    del ends["orders", 5]
    file = tmp_path / "ends.txt"
    file.write_text("".join(f"{topic}:{number}:{end}\n" for (topic, number), end in ends.items()))
    actual = metrics(log("basic"), "--end-offsets", file)
    lags = {key_of(labels): value for labels, value in actual["kafka_consumergroup_lag"][1].items()}
    expected = {k: ends[k[1:]] - offset for k, offset in latest.items() if k[1:] in ends}
    assert lags == expected
    sums = {}
    for group, topic, number in latest:
        mine = sums.setdefault((group, topic), [])
        mine.append(expected.get((group, topic, number)))
    actual = actual["kafka_consumergroup_lag_sum"][1]
    assert {key_of(labels)[:2]: value for labels, value in actual.items()} == {
        key: sum(values) for key, values in sums.items() if None not in values
    }
    assert "kafka_consumergroup_lag" not in metrics(log("basic"))


def hostile_log(tmp_path, group, topic, offset):
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    pair = commit_key(1, group.encode(), topic.encode(), 0), commit_value(offset, -1, b"", 1_500)
    (folder / f"{0:020}.log").write_bytes(batch(0, [(1_500, *pair)]))
    return tmp_path


def test_names_with_quotes_backslashes_and_line_ends_come_back_as_they_were(tmp_path):
    group, topic = 'a"b\\c\nd\\n', "t\\\\\u2028,é= {x"
    values = metrics(hostile_log(tmp_path, group, topic, 7))[OFFSET][1]
    assert {key_of(labels): value for labels, value in values.items()} == {(group, topic, 0): 7}


def test_an_offset_beyond_what_a_double_holds_stands_to_the_last_digit(tmp_path):
    result = coterie_ok("metrics", hostile_log(tmp_path, "g", "t", (1 << 63) - 1))
    assert (
        f'{OFFSET}{{consumergroup="g",topic="t",partition="0"}} {(1 << 63) - 1}\n' in result.stdout
    )
    stamp = f'{TIMESTAMP}{{group="g",topic="t",partition="0"}} 1.500\n'
    assert stamp in result.stdout


def test_the_rows_behind_come_as_data(tmp_path):
    output = coterie_ok("metrics", log("basic"), "--format", "csv").stdout
    rows = list(csv.DictReader(output.splitlines()))
    offsets = {
        (row["group_id"], row["topic"], int(row["partition"])): int(row["offset"])
        for row in json.loads(coterie_ok("metrics", log("basic"), "--format", "json").stdout)
        if row["offset"] is not None
    }
    assert offsets == {key: value["offset"] for key, value in offsets_at("basic").items()}
    assert sum(bool(row["offset"]) for row in rows) == len(offsets)


def test_the_file_is_whole_and_what_is_printed(tmp_path):
    out = tmp_path / "coterie.prom"
    coterie_ok("metrics", log("basic"), "-o", out)
    assert out.read_text(encoding="utf-8") == coterie_ok("metrics", log("basic")).stdout
    fails("metrics", log("basic"), "-o", out, says="is there already")


def test_faults_are_said_and_the_rest_is_given():
    result = coterie("metrics", log("corrupt/flipped-crc"))
    assert result.returncode == 0
    assert "corrupt place was left out" in result.stderr
    assert samples(result.stdout)[OFFSET][1]


def test_a_log_of_a_million_records_gives_all_offsets():
    result = coterie_ok("metrics", wide(), "--names", "kafka_exporter")
    assert result.stdout.count(f"\n{OFFSET}{{") == 137_385  # golden/logs/README.md
