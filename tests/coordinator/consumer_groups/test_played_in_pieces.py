"""A trace looks groups up before their turn, and keeps equal requests once: neither is seen."""

import gc
import json
import sys

import pytest

from coterie import GroupCoordinator, load_trace
from coterie.events import Append
from support.consumer_groups import golden

AT_ONCE = 8  # events of a piece: too few for a look-up ahead
TOGETHER = 16  # traces
MEMBER = b"\x00\x05"  # ConsumerGroupMemberMetadataKey
RANDOM = [name for name in golden.names() if name.startswith("random/")]
HEADER = {
    "format": "coterie-trace", "version": 2, "config": {"coterie.behaviour": "4.1"},
    "topics": [{"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAEA", "partitions": 2}],
}  # fmt: skip
JOIN = {
    "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": [],
}  # fmt: skip


def interleaved(names):
    """Events of several traces by their time; each trace has group ids of its own."""
    events = []
    for name in names:
        for line in golden.trace(name)[1:]:
            event = json.loads(line)
            if event.get("group_id"):
                event["group_id"] = f"{name}-{event['group_id']}"
            if "group_ids" in event:
                event["group_ids"] = [f"{name}-{group_id}" for group_id in event["group_ids"]]
            events.append(event)
    events.sort(key=lambda event: event["at"])
    return [json.dumps({**event, "id": number}) for number, event in enumerate(events, 1)]


@pytest.mark.parametrize("first", range(0, len(RANDOM), TOGETHER))
def test_a_trace_of_many_groups_is_played_as_in_pieces(first):
    names = RANDOM[first : first + TOGETHER]
    header, events = golden.trace(names[0])[0], interleaved(names)
    coordinator, pieces = GroupCoordinator(), []
    for at in range(0, len(events), AT_ONCE):
        piece = load_trace([header, *events[at : at + AT_ONCE]])
        pieces += coordinator.play(piece).lines()
    assert pieces == list(GroupCoordinator().play(load_trace([header, *events])).lines())


def test_a_member_whose_client_changes_and_changes_back_is_written_each_time():
    clients = ["c", "c", "c", "d", "d", "c", "c"]
    beats = [
        {
            "op": "consumer_group_heartbeat", "at": number, "id": number, "group_id": "g",
            "member_id": "m", "member_epoch": 1 if number else 0, "client_id": client,
            **({} if number else JOIN),
        }
        for number, client in enumerate(clients)
    ]  # fmt: skip
    trace = load_trace([json.dumps(line) for line in (HEADER, *beats)])
    events = GroupCoordinator().play(trace).events()
    members = [
        event.at for event in events if isinstance(event, Append) and event.key[:2] == MEMBER
    ]
    assert members == [0, 3, 5]


def test_the_collector_visits_nothing_of_a_group():
    """Else each collection would read all members of many groups from memory.

    Since Python 3.14 every dict is tracked, whatever it holds.
    """

    def tracked():
        gc.collect()
        return sum(sys.version_info < (3, 14) or type(one) is not dict for one in gc.get_objects())

    def objects_of(groups):
        beats = [
            {
                "op": "consumer_group_heartbeat", "group_id": f"g{group}", "member_id": member_id,
                "member_epoch": epoch, "topic_partitions": [],
                **({} if epoch else JOIN),
            }
            for group in range(groups) for member_id, epoch in (("a", 0), ("b", 0), ("a", 1))
        ]  # fmt: skip
        lines = [{"at": number, "id": number, **line} for number, line in enumerate(beats, 1)]
        trace = load_trace([json.dumps(line) for line in (HEADER, *lines)])
        before = tracked()
        coordinator = GroupCoordinator()
        output = coordinator.play(trace)
        after = tracked()
        errors = [line["error"] for line in output.lines() if "error" in line]
        assert errors == ["NONE"] * len(beats)
        return after - before

    objects_of(2)  # makes what is made once
    assert objects_of(200) <= objects_of(2) + 2
