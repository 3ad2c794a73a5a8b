"""``undo --execute`` on a cluster that lies: each field of each response that it believes.

The lies are drawn from the fields of honest responses, so a new field is lied about, too. Each is
sent always, and once, as the first, second or third response of its API.
"""

import asyncio
import copy
import tempfile
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("aiokafka")

from coterie import wire
from coterie.cli.undo_execute import commit_plan
from coterie.errors import ArgumentError, CoterieError
from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster
from coterie.live.cluster_errors import ClusterError, Unavailable
from coterie.live.connections import NEWEST
from support.examples import examples

KEYS = {api.name: api for api in wire.APIS.values()}
ENDS = {("t", 0): (10, 100), ("t", 1): (10, 100), ("u", 0): (0, 50)}
BEFORE = {("t", 0): 20, ("t", 1): 30, ("u", 0): 5, ("v", 7): 1}
PLAN = {("t", 0): 40, ("t", 1): 130, ("u", 0): 5}
RESTORED = {("t", 0): 40, ("t", 1): 100, ("u", 0): 5}
LOOK = 16  # requests; then those of the commit
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 7, 40, 2**31 - 1, 2**62)
CODES = (-1, 3, 6, 16, 25, 29, 69, 12_345)
TEXTS = ("", "u", "Dead", "Stable", "a\0\x1b[2J")
NOT_READ = {
    *("throttleTimeMs", "clusterId", "controllerId", "rack", "isInternal", "leaderEpoch"),
    *("replicaNodes", "isrNodes", "offlineReplicas", "authorizedOperations"),
    *("topicAuthorizedOperations", "committedLeaderEpoch", "timestamp", "errorMessage"),
}
QUICK = {"default.api.timeout.ms": "1", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}


def gone(node, *rest):
    raise Unavailable("the connection broke")


def ended(node, *rest):
    raise ClusterError("the login has ended")


def moved(node):
    """Let another coordinator take over that has nothing of what was committed."""
    node.has_now = dict(BEFORE)


def coded(code, places):
    """An error of some partitions, whatever was committed."""

    def lie(node, api, answer, held):
        for row in answer["topics"][0]["partitions"][:places] if api == "OffsetCommit" else ():
            row["errorCode"] = code
        return answer

    return lie


def not_done(node, api, answer, held):
    """Say that something was committed, and commit nothing."""
    if api == "OffsetCommit":
        node.has_now = held
    return answer


def without_rows(node, api, answer, held):
    return answer | {"topics": answer["topics"][1:]} if api == "OffsetCommit" else answer


def throttled(node, api, answer, held):
    return answer | {"throttleTimeMs": 2**31 - 1}


BEFORE_IT = {  # a request: what happens meanwhile
    "refused": gone,
    "no longer allowed": ended,
    "another commits": lambda node: node.has_now.update({("t", 0): 55}),
    "the group is deleted": lambda node: node.has_now.clear(),
    "the coordinator moves": moved,
}
AFTER_IT = {
    "the answer is lost": gone,
    "the answer is to no request": ended,
    "committed, with an error": coded(16, 9),
    "committed, with an error of one": coded(29, 1),
    "committed in time or not": coded(7, 1),
    "not committed, without an error": not_done,
    "without rows": without_rows,
    "throttled for weeks": throttled,
}


class Node:
    """A broker of the cluster; ``lie`` changes its responses of an API, by their number."""

    address, is_open = "broker:9092", True

    def __init__(self, api=None, lie=None, when=None, members=(), old=False):
        self.api, self.lie, self.when, self.members, self.old = api, lie, when, members, old
        self.has_now, self.made, self.count, self.responses = dict(BEFORE), [], 0, []
        self.turns, self.number, self.replaced = {}, 0, {}

    def has(self, api):
        return api != "ConsumerGroupDescribe" or not self.old

    async def ask(self, api, body):
        turn = self.turns.get(self.number)
        self.number += 1
        if turn in BEFORE_IT:
            BEFORE_IT[turn](self)
        held = dict(self.has_now)
        answer = self.answer(api, body)
        if api == "OffsetCommit":
            for place in self.made[-1] if self.made else ():
                self.replaced.setdefault(place, held.get(place))
        if turn in AFTER_IT:
            answer = AFTER_IT[turn](self, api, answer, held)
        if api == "OffsetFetch":
            self.responses.append(answer)
        return answer

    def answer(self, api, body):
        answer = as_sent(api, getattr(self, api)(body))
        if api == self.api:
            if self.when in (None, self.count):
                answer = as_sent(api, self.lie(answer))
            self.count += 1
        return answer

    def Metadata(self, body):
        name = body["topics"][0]["name"]
        parts = [
            {"partitionIndex": number, "leaderId": 1, "replicaNodes": [1], "isrNodes": [1]}
            for topic, number in ENDS
            if topic == name
        ]
        topic = {"name": name, "topicId": "id-of-topic-AAAAAAAAAA"[:21] + "A", "partitions": parts}
        brokers = [{"nodeId": 1, "host": "broker", "port": 9092}]
        return {"brokers": brokers, "clusterId": "c", "topics": [topic]}

    def FindCoordinator(self, body):
        return {"nodeId": 1, "host": "broker", "port": 9092}

    def DescribeGroups(self, body):
        state = "Stable" if self.members else "Empty"
        members = [{"memberId": name, "clientId": "c"} for name in self.members]
        return {"groups": [{"groupId": "g", "groupState": state, "members": members}]}

    ConsumerGroupDescribe = DescribeGroups

    def OffsetFetch(self, body):
        return {"topics": by_topic(self.has_now, "committedOffset")}

    def ListOffsets(self, body):
        (topic,) = body["topics"]
        index = [-2, -1].index(topic["partitions"][0]["timestamp"])
        places = [(topic["name"], part["partitionIndex"]) for part in topic["partitions"]]
        ends = {place: ENDS[place][index] for place in places if place in ENDS}
        return {"topics": by_topic(ends, "offset")}

    def OffsetCommit(self, body):
        code = 25 if self.members else 0
        asked = {
            (topic["name"], row["partitionIndex"]): row["committedOffset"]
            for topic in body["topics"]
            for row in topic["partitions"]
        }
        if not code:
            self.made.append(asked)
            self.has_now |= asked
        return {"topics": by_topic(dict.fromkeys(asked, code), "errorCode")}


def by_topic(values, field):
    """Rows of a response, by topic."""
    found = {}
    for (topic, number), value in values.items():
        found.setdefault(topic, []).append({"partitionIndex": number, field: value})
    return [{"name": name, "partitions": rows} for name, rows in found.items()]


def as_sent(api, answer):
    """A response as it is read after it was sent, with all fields."""
    key, version = KEYS[api].key, NEWEST.get(api, KEYS[api].last_version)
    return wire.decode_response(key, version, wire.encode_response(key, version, answer)).body


def paths(value, path=()):
    """The path of each field that is believed, and of each row."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in items:
        if name not in NOT_READ:
            yield (*path, name)
            if isinstance(inner, dict | list):
                yield from paths(inner, (*path, name))


def other_values(name, value):
    """What may stand in the place of a value of a response."""
    if isinstance(value, list):
        yield from ([], value * 2, value[::-1], value[1:], value[:-1], value[:1] * 2, None)
        if value and isinstance(value[0], dict):
            extra = copy.deepcopy(value[-1])
            extra |= {key: 7 for key in ("partitionIndex", "nodeId") if key in extra}
            extra |= {key: "other" for key in ("name", "groupId", "memberId") if key in extra}
            yield from ([*value, extra], [extra])
    elif isinstance(value, str):
        yield from (*TEXTS, None)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from CODES if name == "errorCode" else NUMBERS


def lies_of(api, honest):
    """Yield what changes a response, with its name."""
    for path in paths(honest):
        at = honest
        for step in path:
            at = at[step]
        for other in other_values(path[-1], at):

            def lie(answer, path=path, other=other):
                changed = copy.deepcopy(answer)
                inner = changed
                with suppress(IndexError):  # of another topic, with fewer partitions
                    for step in path[:-1]:
                        inner = inner[step]
                    inner[path[-1]] = other
                return changed

            with suppress(ArgumentError):  # it cannot be sent
                if as_sent(api, lie(honest)) != honest:
                    yield lie, f"{api}: {'.'.join(map(str, path))} is {other!r:.60}"


class Asked(Cluster):
    """A cluster of one node, which all connections reach."""

    def __init__(self, node):
        super().__init__([("broker", 9092)], ClientConfig(QUICK))
        self.node = node

    async def _open(self, key, address, name):
        self._connections[key] = self.node
        return self.node


def executed(node, folder, monkeypatch):
    """Execute the plan on a node: the outcomes, or the error; and what was saved."""
    monkeypatch.setattr(
        "coterie.cli.live_state.on_cluster_again",
        lambda options, work: asyncio.run(work(Asked(node), asyncio.Event())),
    )
    rows = [
        {"group_id": "g", "topic": topic, "partition": number, "offset": offset,
         "latest_offset": offset, "trusted_from": None, "rewound_at": None, "note": None}
        for (topic, number), offset in PLAN.items()
    ]  # fmt: skip
    save, options = folder / "before.csv", SimpleNamespace(inputs=(), out=None)
    save.unlink(missing_ok=True)
    try:
        found = commit_plan(rows, 0, str(save), options, notes=(), yes=True)
    except CoterieError:
        return None, None
    lines = [line.split(",") for line in save.read_text().splitlines()]
    return found, {(topic, int(number)): int(offset) for topic, number, offset in lines}


def last_offsets(node, number):
    """What the group has, by the last responses to OffsetFetch."""
    return {
        (topic["name"], row["partitionIndex"]): row["committedOffset"]
        for topic in node.responses[number]["topics"]
        for row in topic["partitions"]
        if row["committedOffset"] >= 0
    }


def check(node, outcomes, saved):
    """Check what was committed, saved and shown of an execution."""
    if outcomes is None:
        assert not node.made
        return
    assert [(row["topic"], row["partition"]) for row in outcomes] == [*PLAN]
    for request in node.made:
        for place, offset in request.items():
            assert saved.get(place) == last_offsets(node, 0).get(place)
            if node.when is not None:
                assert offset in (RESTORED[place], PLAN[place])
                assert saved[place] == BEFORE[place]
    for row in outcomes:
        place = row["topic"], row["partition"]
        if row["outcome"] == "failed":
            assert row["note"]
            continue
        done = {offset for request in node.made for at, offset in request.items() if at == place}
        last = -1
        if row["outcome"] == "unchanged":
            done, last = {row["offset_before"]}, 0
        has_now = last_offsets(node, last) if node.when is None else node.has_now
        assert done == {has_now[place]}


REQUESTS = {  # at least, of an execution
    **{"Metadata": 3, "FindCoordinator": 2, "OffsetFetch": 3, "ListOffsets": 3, "OffsetCommit": 1},
    **{"DescribeGroups": 1, "ConsumerGroupDescribe": 1},
}
DESCRIBING = ("DescribeGroups", "ConsumerGroupDescribe")


def honest_response(api, **node):
    """A response of an honest node to a request of an execution."""
    bodies = {
        "Metadata": {"topics": [{"name": "t"}]},
        "ListOffsets": {"topics": [{"name": "t", "partitions": [
            {"partitionIndex": number, "timestamp": -1} for number in (0, 1)]}]},
        "OffsetCommit": {"topics": by_topic(RESTORED, "committedOffset")},
    }  # fmt: skip
    return as_sent(api, getattr(Node(**node), api)(bodies.get(api)))


def test_an_honest_cluster_gets_the_plan(tmp_path, monkeypatch):
    node = Node()
    outcomes, saved = executed(node, tmp_path, monkeypatch)
    assert [row["outcome"] for row in outcomes] == ["committed", "committed", "unchanged"]
    assert node.made == [{("t", 0): 40, ("t", 1): 100}]
    assert node.has_now == BEFORE | RESTORED
    assert saved == {place: BEFORE[place] for place in PLAN}
    assert node.number == LOOK + 4


@pytest.mark.parametrize("api", REQUESTS)
def test_no_lie_commits_what_is_not_planned_or_calls_done_what_is_not(api, tmp_path, monkeypatch):
    failed, count, whens = [], 0, (None, *range(REQUESTS[api]))
    for (lie, name), when in product(lies_of(api, honest_response(api)), whens):
        node = Node(api, lie, when, old=api == "DescribeGroups")
        count += 1
        try:
            check(node, *executed(node, tmp_path, monkeypatch))
        except Exception as error:
            failed.append(f"{name}, {when}: {type(error).__name__} {error!s:.300}")
    assert count > 50
    assert not failed, f"{len(failed)} of {count}:\n" + "\n".join(failed)


@pytest.mark.parametrize("api", DESCRIBING)
def test_no_lie_about_a_group_with_members_gets_a_commit(api, tmp_path, monkeypatch):
    of_members = {"members": ("m",), "old": api == "DescribeGroups"}
    for lie, name in lies_of(api, honest_response(api, **of_members)):
        node = Node(api, lie, **of_members)
        assert (executed(node, tmp_path, monkeypatch), node.made) == ((None, None), []), name


@settings(max_examples=examples(300))
@given(
    st.dictionaries(
        st.integers(LOOK, LOOK + 9), st.sampled_from([*BEFORE_IT, *AFTER_IT]), max_size=4
    ),
    st.sampled_from(("1", "1000")),
)
def test_whatever_happens_meanwhile_outcomes_and_file_are_true(turns, limit_ms):
    """Lost answers, moves, commits of others, errors of what was done: at any request."""
    node = Node()
    node.turns = turns
    with (
        tempfile.TemporaryDirectory() as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(QUICK, "default.api.timeout.ms", limit_ms)
        outcomes, saved = executed(node, Path(home), patch)
    if outcomes is None:
        assert not node.made
        return
    for row in outcomes:
        place, note = (row["topic"], row["partition"]), row["note"] or ""
        assert row["outcome"] in ("committed", "unchanged") or note
        if row["outcome"] == "committed":
            assert place in node.replaced
            assert last_offsets(node, -1)[place] == RESTORED[place]
        elif place in node.replaced:
            doubt = (
                "may have been committed",
                *(
                    "meanwhile",
                    "and then has",
                    "the broker answers",
                    "does not say",
                    "no permission",
                ),
            )
            assert any(words in note for words in doubt)
            assert last_offsets(node, -1).get(place) != RESTORED[place] or doubt[0] in note
    if {"another commits", "the group is deleted"}.isdisjoint(turns.values()):
        # Nobody sees either of them between a look and a commit.
        assert {place: saved.get(place) for place in node.replaced} == node.replaced
