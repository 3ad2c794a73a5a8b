"""Many regular expressions are resolved together; each matches what it matches alone."""

import json
import random

import pytest

from coterie import Batch, GroupCoordinator, run_trace
from coterie._core.codec.schema import encode_key, encode_value
from coterie._core.coordinator.consumer.values import matching
from support.consumer_groups import coordinator as model
from support.consumer_groups import golden

re2 = pytest.importorskip("re2")
NAMES = ["", "t", "orders", "orders-2", "t.1", "a" * 249, "ord\u00e9rs", "x\ny"]
PARTS = ["ord", ".*", "[a-z]+", "t", "\\.", "(s|-2)", "\\d?", "[^a]", "a{0,200}", "(?i)ORDERS", ""]


@pytest.mark.parametrize("seed", range(10))
def test_expressions_match_together_what_they_match_alone(seed):
    draw = random.Random(seed)
    regexes = {"".join(draw.choices(PARTS, k=draw.randint(1, 4))) for _ in range(250)}
    expected = {regex: [name for name in NAMES if re2.fullmatch(regex, name)] for regex in regexes}
    assert matching(regexes, NAMES) == expected


def test_expressions_that_need_more_memory_than_a_set_has_match_alone():
    regexes = [f".*(x{n}|[ab]).{{{n}}}(a.*b.*){{1,9}}" for n in range(1, 90)]
    names = ["ab" * 120, "x7" + "ab" * 99]
    expected = {regex: [name for name in names if re2.fullmatch(regex, name)] for regex in regexes}
    assert matching(regexes, names) == expected


# Changes of a TimelineHashMap of Kafka 4.4.0, and the change that put what its iterator gives
# first: "c" puts expression 2 of EXPRESSIONS, "C" removes it.
EXPRESSIONS = ("t|u", "[uv]", ".*", "orders.*", "foo-.*", "[a-m].*", "x-\\d+", "\u00e9",
               "\U0001f600.", "ba.", "b.*", "bar", "fo+", "nothing", "a|ab")  # fmt: skip
FIRST_OF_MAP = [
    ("ba", 1), ("bAa", 2), ("lgLkgab", 3), ("BdffecIijfH", 8), ("KemfLjeCfgid", 5),
    ("AfHgaIkhehf", 9), ("dGbFjCchcAefh", 11), ("faebgFdedgdGEeDg", 13),
    ("FdeecGbhdfdAhhbEdbd", 9), ("mOcllGhkmJMNDjhggMh", 13), ("faeJHcbggibbcBaiFchHgc", 21),
    ("jeGgfgbHCGfeEmaeeaCjEHB", 10),
]  # fmt: skip
PAUSE_MS = 10_000


def resolves(changes, now_ms):
    """Whether a heartbeat resolves anew, after a load of changes that are 20 seconds apart."""

    def row(version, value, **name):
        key = encode_key({"version": version, "data": {"groupId": "g", **name}})
        return key, value and encode_value(version, {"version": 0, "data": value})

    fields = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
              "subscribedTopicNames": [], "subscribedTopicRegex": "never", "rebalanceTimeoutMs": 7,
              "serverAssignor": None}  # fmt: skip
    current = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": [],
               "partitionsPendingRevocation": []}  # fmt: skip
    records = [row(5, fields, memberId="m"), row(3, {"epoch": 1}), row(6, {"assignmentEpoch": 1}),
               row(8, current, memberId="m")]  # fmt: skip
    for n, change in enumerate(changes):
        value = {"topics": [], "version": 0, "timestamp": 2 * PAUSE_MS * n}
        name = EXPRESSIONS[ord(change.lower()) - ord("a")]
        records.append(row(16, value if change.islower() else None, regularExpression=name))
    interval = {"group.consumer.regex.refresh.interval.ms": PAUSE_MS}
    coordinator = GroupCoordinator(interval | {"coterie.behaviour": "4.4"}, now_ms=now_ms,
                                   log=[Batch(0, records=records)])  # fmt: skip
    coordinator.consumer_group_heartbeat("g", "m", 1, client_id="c", client_host="/h")
    return any(key[:2] == b"\0\x10" for batch in coordinator.log[1:] for key, _ in batch.records)


@pytest.mark.parametrize(("changes", "first"), FIRST_OF_MAP)
def test_the_first_expression_of_kafkas_map_says_when_all_were_resolved(changes, first):
    """ConsumerGroup.lastResolvedRegularExpressionRefreshTimeMs."""
    at_ms = 2 * PAUSE_MS * first
    assert not resolves(changes, at_ms + PAUSE_MS)
    assert resolves(changes, at_ms + PAUSE_MS + 1)


@pytest.mark.parametrize("behaviour", [*golden.BEHAVIOURS, *golden.NEWER])
def test_each_record_of_a_member_says_anew_whether_all_read_the_same(behaviour):
    """ConsumerGroup.updateMember: not only records of a subscription, also current assignments.

    Without n's expression, m's next assignment lets the group count as one that reads the same. So
    n gets partitions when it comes back, before its expression is resolved, as the slow model says.
    """
    topics = [{"topic": name, "topic_id": name * 21 + "A", "partitions": 4} for name in "tuv"]
    config = {"coterie.behaviour": behaviour}
    if behaviour >= "4.3":
        config["group.consumer.assignment.interval.ms"] = 0
    trace = [{"format": "coterie-trace", "version": 2, "name": "a member comes back",
              "config": config, "topics": topics[:2]}]  # fmt: skip

    def beat(at_ms, name, epoch, regex=None):
        joins = {} if regex is None else {
            "rebalance_timeout_ms": 5000, "topic_partitions": [], "subscribed_topic_names": [],
            "subscribed_topic_regex": regex}  # fmt: skip
        trace.append(
            {
                "at": at_ms,
                "id": len(trace),
                "op": "consumer_group_heartbeat",
                "group_id": "g",
                "member_id": name,
                "member_epoch": epoch,
                **joins,
            }
        )

    beat(0, "m", 0, ".*")
    beat(11_000, "n", 0, "[uv]")
    beat(12_000, "n", -1)
    beat(13_000, "m", 0, ".*")
    trace.append({"at": 33_000, "id": len(trace), "op": "metadata", "topics": topics[2:]})
    beat(34_000, "m", 4)  # the new topic raises the epoch after the answer
    beat(35_000, "n", 0, "[uv]")
    lines = [json.dumps(event) for event in trace]
    played = golden.by_kind(run_trace(lines))
    assert played == golden.by_kind(model.run(lines))
    targets = [event for event in played[1]["g", False] if event["key"].startswith("AAcAAWcAAW4")]
    assert len(targets[-1]["value"]) > len("AAABAA==")  # of an empty target
