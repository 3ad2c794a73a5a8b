"""The layouts of a broker's own log: which time is the broker's, and what is the text."""

import json

import pytest

from coterie.base.log_layouts import LogReader

AT_MS = 1_795_894_831_780  # 2026-11-28T19:40:31.780Z
SAYS = "[GroupCoordinator 0]: Member b in group g has failed, removing it from the group"
LOGGER = "(kafka.coordinator.group.GroupCoordinator)"
APACHE = f"[2026-11-28 19:40:31,780] INFO {SAYS} {LOGGER}"
PLAIN = [
    APACHE,
    f"2026-11-28 19:40:31,780 INFO {SAYS} {LOGGER} [executor-Heartbeat]",  # Strimzi
    f"2026-11-28T19:40:31,780 INFO {SAYS}",
    f"2026-11-28T19:40:31.780Z INFO  [executor-Heartbeat] kafka.coordinator.group - {SAYS}",
    f"2026-11-28T21:40:31.780+02:00 INFO {SAYS}",
    f"2026-11-28 14:10:31,780 -0530 INFO {SAYS}",
    f"2026-11-28 19:40:31.780 UTC [executor-Heartbeat] INFO  {SAYS}",
    f"[2026-11-28 19:40:31,780] [executor-Heartbeat] INFO: {SAYS}",
    f"[INFO] 2026-11-28 19:40:31,780 {SAYS}",
    f"INFO [2026-11-28 19:40:31,780] {SAYS}",
    f"2026-11-28 19:40:31,780 {SAYS}",  # no level at all
    f"2026/11/28 19:40:31.780 INFO [GroupCoordinator] {SAYS}",
    f"20261128T194031,780 INFO {SAYS}",  # log4j's ISO8601_BASIC
    f"28 Nov 2026 19:40:31,780 INFO {SAYS}",  # its DATE
    f'2026-11-28 19:40:31.780,INFO,"{SAYS}"',
    f'ts=2026-11-28T19:40:31.780Z level=info msg="{SAYS}" logger=x',
]
PREFIXES = [
    "2026-11-28T19:50:00.123456789Z ",  # kubectl logs --timestamps
    "[pod/kafka-0/kafka] 2026-11-28T19:50:00.123456789Z ",  # ... --prefix
    "2026-11-28T19:50:00.123456789Z stdout F ",  # a file of the container runtime
    "kafka-1  | ",  # docker compose logs
    "kafka-1  | 2026-11-28T19:50:00.123456789Z ",  # ... --timestamps
    "\x1b[36mkafka-1  |\x1b[0m ",
    "Nov 28 19:50:00 host-3 kafka-server-start.sh[4711]: ",  # journald
    "2026-11-28T19:50:00+0000 host-3 kafka[4711]: ",
]
OF_JSON = [
    {"@timestamp": "2026-11-28T19:40:31.780Z", "log.level": "INFO", "message": SAYS},  # ECS
    {"@timestamp": "2026-11-28T19:40:31.780Z", "log": {"level": "INFO"}, "message": SAYS},
    {"@timestamp": "2026-11-28T20:40:31.780+01:00", "@version": "1", "level": "INFO",
     "message": SAYS, "logger_name": LOGGER},  # logstash
    {"instant": {"epochSecond": AT_MS // 1000, "nanoOfSecond": 780_000_000}, "level": "INFO",
     "loggerName": LOGGER, "message": SAYS},  # log4j2's JsonLayout
    {"timeMillis": AT_MS, "level": "INFO", "message": SAYS},
    {"timestamp": AT_MS / 1000, "level": 6, "short_message": SAYS},  # GELF
    {"timestamp": "2026-11-28T19:40:31.780Z", "severity": "INFO", "message": SAYS},  # GCP
    {"ts": "2026-11-28 19:40:31,780", "level": "info", "msg": SAYS},
    {"MESSAGE": SAYS, "__REALTIME_TIMESTAMP": f"{AT_MS}000"},  # journalctl -o json
    # A whole line of the broker in the JSON of a runtime; the broker's time counts.
    {"log": f"{APACHE}\n", "stream": "stdout", "time": "2026-11-28T19:50:00.1Z"},
    {"@timestamp": "2026-11-28T19:50:00Z", "message": APACHE},
    # Exports of stores: Cloud Logging, Elasticsearch, Splunk.
    {"timestamp": "2026-11-28T19:40:31.780Z", "jsonPayload": {"level": "INFO", "message": SAYS}},
    {"_index": "k", "_source": {"@timestamp": "2026-11-28T19:40:31.780Z", "message": SAYS}},
    {"result": {"_raw": APACHE, "_time": "2026-11-28T19:50:00.000+00:00"}},
    {"result": {"_raw": SAYS, "_time": "2026-11-28T19:40:31.780+00:00"}},
    {"labels": {"pod": "k-0"}, "line": APACHE, "timestamp": "2026-11-28T19:50:00Z"},  # logcli
    {"timestamp": f"{AT_MS}000000", "body": SAYS, "severity": "INFO"},  # OpenTelemetry
    {"time": AT_MS / 1000, "event": SAYS, "sourcetype": "kafka"},  # Splunk's collector
    {"Timestamp": "2026-11-28T19:40:31.780Z", "Level": "INFO", "Message": SAYS},  # Serilog
    {"@t": "2026-11-28T19:40:31.780Z", "@m": SAYS},
    {"timeUnixNano": f"{AT_MS}000000", "severityText": "INFO", "body": {"stringValue": SAYS}},
    {"TimeGenerated": "2026-11-28T19:50:00Z", "LogEntry": APACHE},  # Azure
    {"_index": "k", "fields": {"@timestamp": ["2026-11-28T19:40:31.780Z"], "message": [SAYS]}},
    {"MESSAGE": list(APACHE.encode()), "__REALTIME_TIMESTAMP": f"{AT_MS}000"},  # with an escape
    # The object with the text is any number of objects deep; its own time counts.
    {"time": "2026-11-28T19:50:00Z", "a": {"b": {"ts": AT_MS, "text": SAYS, "c": {"text": "x"}}}},
]  # fmt: skip


@pytest.mark.parametrize("line", [*PLAIN, *map(json.dumps, OF_JSON)])
@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_a_line_has_the_brokers_time_and_text_whatever_stands_before_it(line, prefix):
    read = LogReader().read(f"{prefix}{line}\n")
    assert read is not None
    assert round(read.at_ms) == AT_MS
    assert SAYS in read.text
    assert read.level in ("INFO", "")


@pytest.mark.parametrize("around", ["[{}", "{},", "{}]", "[{}]", "  {} ,"])
def test_an_array_of_json_may_have_an_object_a_line(around):
    for entry in OF_JSON:
        read = LogReader().read(around.replace("{}", json.dumps(entry)))
        assert read is not None
        assert (round(read.at_ms), SAYS in read.text) == (AT_MS, True)


@pytest.mark.parametrize("prefix", [prefix for prefix in PREFIXES if "2026" in prefix])
def test_a_line_without_a_time_of_its_own_has_that_of_its_prefix(prefix):
    read = LogReader().read(f"{prefix}INFO {SAYS}")
    assert read is not None
    assert read.at_ms // 1000 == AT_MS // 1000 + 9 * 60 + 29


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no time at all",
        "\tat kafka.coordinator.group.GroupCoordinator.onExpireHeartbeat(GroupCoordinator.scala:1)",
        f"19:40:31,780 INFO {SAYS}",  # no date
        f"2026-13-28 19:40:31,780 INFO {SAYS}",  # no such day
        json.dumps({"message": SAYS}),
        json.dumps({"@timestamp": "yesterday", "message": SAYS}),
        json.dumps({"@timestamp": True, "message": SAYS}),
        json.dumps({"@timestamp": "2026-11-28T19:40:31.780Z", "message": 7}),
        json.dumps([SAYS]),
        f"0000000042 INFO {SAYS}",  # a number, but no time
        f"0000000000042 INFO {SAYS}",
        json.dumps({"log": f"0000000042 INFO {SAYS}"}),
        '{"@timestamp": "2026-11-28T19:40:31',
        '{"a":' * 100_000,
    ],
)
def test_a_line_in_no_layout_is_none(line):
    assert LogReader().read(line) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('"a" and "b"', '"a" and "b"'),  # names in marks are no field of CSV
        ('"a ""b"""', 'a "b"'),
        ('"', '"'),
    ],
)
def test_only_a_whole_field_of_csv_loses_its_marks(text, read):
    assert LogReader().read(f"2026-11-28 19:40:31,780 INFO {text}").text == read


def test_a_time_without_a_zone_is_of_the_logs_zone_and_a_zone_in_the_line_counts():
    reader = LogReader("+02:00")
    assert reader.read("2026-11-28 21:40:31,780 INFO x").at_ms == AT_MS
    assert reader.read("2026-11-28 19:40:31,780Z INFO x").at_ms == AT_MS
    assert reader.read(json.dumps({"time": "2026-11-28T21:40:31.780", "msg": "x"})).at_ms == AT_MS


def test_a_json_text_in_a_pattern_is_a_text():
    """As of a request log: the braces belong to the text, whatever they hold."""
    text = 'Completed request:{"message": "x", "time": 1795894831780}'
    read = LogReader().read(f"2026-11-28 19:40:31,780 DEBUG {text} (kafka.request.logger)")
    assert read is not None
    assert read.text.startswith(text)


@pytest.mark.parametrize("number", ["1795894831.780", "1795894831780"])
def test_a_line_may_begin_with_a_number_of_seconds_or_milliseconds(number):
    read = LogReader().read(f"{number} INFO {SAYS}")
    assert read is not None
    assert (round(read.at_ms), read.text) == (AT_MS, SAYS)


@pytest.mark.parametrize("quoted", [
    "msg=" + json.dumps('a "b" {}'), "level=debug msg=" + json.dumps('a "b" {}') + " x=1",
    '"a ""b"" {}"', 'a "b" {}',
])  # fmt: skip
def test_quotation_marks_around_a_text_are_none_of_it(quoted):
    separator = "," if quoted.startswith('"') else " "
    read = LogReader().read(f"2026-11-28 19:40:31,780{separator}DEBUG{separator}{quoted}")
    assert read is not None
    assert read.text == 'a "b" {}'


def test_the_first_line_that_should_be_understood_is_the_example():
    reader = LogReader()
    reader.pass_over(1, "  first\n", missed=False)
    assert (reader.missed, reader.example) == (0, "line 1: first")
    reader.pass_over(2, "second", missed=True)
    reader.pass_over(3, "third" * 100, missed=True)
    assert (reader.missed, reader.example) == (2, "line 2: second")
