"""The requests to brokers, and what becomes of their responses; the brokers are scripted."""

import asyncio
import errno
import re
import socket
import ssl
import tracemalloc
import weakref
from io import BytesIO
from types import SimpleNamespace

import pytest

pytest.importorskip("aiokafka")

from aiokafka.errors import SaslAuthenticationFailed

from coterie.errors import WireError
from coterie.live import cluster, connection_failures, connections
from coterie.live import cluster_groups as groups
from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster, TopicView, _topic_of
from coterie.live.cluster_errors import ClusterError, NoTopic, Unavailable, refusal
from coterie.live.connection_failures import Place, not_connected, tls_failure
from coterie.live.connections import FRAME_BYTES_MAX, SETUP_BYTES_MAX, Connection
from coterie.live.end_offsets import EARLIEST, end_offsets
from coterie.live.probing import CLOSED, Spoken
from coterie.values import Error
from coterie.wire import APIS, decode_response, encode_response

KEYS = {api.name: api.key for api in APIS.values()}


class Scripted:
    """A cluster whose brokers answer by API: a body, or a function of the request's body."""

    def __init__(self, *, nodes=(1,), has=(), leaders=None, **answers):
        self.nodes, self.apis, self.answers, self.requests = nodes, has, answers, []
        self.leaders = leaders or {}

    async def connection(self, node, lane=0):
        return Asked(self, node)

    async def coordinator(self, group):
        return Asked(self, group)

    async def patiently(self, work):
        return await work()

    async def topic(self, name):
        if name not in self.leaders:
            raise NoTopic(f"the cluster has no topic {name}")
        return TopicView(name, None, self.leaders[name])


class Asked:
    """A connection to one of its brokers."""

    def __init__(self, cluster, node):
        self.cluster, self.node = cluster, node

    def has(self, api):
        return api in self.cluster.apis

    async def ask(self, api, body):
        self.cluster.requests.append((self.node, api, body))
        answer = self.cluster.answers[api]
        return answer(self.node, body) if callable(answer) else answer


def run(work):
    return asyncio.run(work)


# ---- connections


class Link:
    """A connection to one address, open until it is closed."""

    def __init__(self, address):
        self.address, self.is_open, self.requests, self.closed = address, True, [], 0

    async def ask(self, api, body):
        self.requests.append(api)
        nodes = [{"nodeId": n, "host": f"h{n}", "port": 9_000 + n} for n in (7, 3, 5)]
        topic = {"name": "t", "errorCode": 0, "partitions": [{"partitionIndex": 0, "leaderId": 3}]}
        return {"clusterId": "c", "brokers": nodes, "topics": [topic]}

    def close(self):
        self.is_open, self.closed = False, self.closed + 1
        return asyncio.ensure_future(asyncio.sleep(0))


def test_a_request_to_any_broker_goes_to_one_that_is_connected(monkeypatch):
    links = []

    async def connect(host, port, security, config, setup_s, one_at_a_time):
        links.append(Link((host, port)))
        return links[-1]

    async def requests():
        async with Cluster((("first", 9_092),), ClientConfig()) as known:
            assert (known.nodes, known.cluster_id) == ((), None)
            await known.topic("t")
            assert (known.nodes, known.cluster_id) == ((3, 5, 7), "c")
            five = await known.connection(5)
            assert await known.connection(5) is five
            assert await known.connection(5, 0) is five
            assert await known.connection(5, 1) is not five
            await known.topic("t")
            assert five.requests == ["Metadata"]
            with pytest.raises(Unavailable, match="broker 4 is not in the cluster's metadata"):
                await known.connection(4)
            five.is_open = False
            assert await known.connection(5) is not five

    monkeypatch.setattr(cluster, "connect", connect)
    run(requests())
    assert [link.address for link in links] == [("first", 9_092), *[("h5", 9_005)] * 3]
    assert [link.closed for link in links] == [1, 0, 1, 1]  # the second one was closed by itself


def test_brokers_have_a_bound_and_those_that_are_named_no_more_are_forgotten(monkeypatch):
    links, named = [], [1]

    class Liar(Link):
        """Names another coordinator each time."""

        async def ask(self, api, body):
            if api == "FindCoordinator":
                return {"errorCode": 0, "nodeId": 2_000 + len(links), "host": "h", "port": 1}
            nodes = [{"nodeId": n, "host": f"h{n}", "port": 9_000} for n in range(named[0])]
            return await super().ask(api, body) | {"brokers": nodes}

    async def connect(host, port, *_):
        links.append(Liar((host, port)))
        return links[-1]

    async def requests():
        async with Cluster((("first", 9_092),), ClientConfig()) as known:
            for _ in range(20):
                await known.coordinator("g")
                await known.topic("t")
            assert known.nodes == (0,)
            assert len(known._connections) == len(known._opening) == len(known._reached) == 1
            assert len([link for link in links if link.is_open]) == 1
            named[0] = 1_001
            with pytest.raises(ClusterError, match="names more than 1,000 brokers"):
                await known.topic("t")

    monkeypatch.setattr(cluster, "connect", connect)
    run(requests())


@pytest.fixture
def closing(monkeypatch):
    """A place where connections are closed, whatever is asked."""

    async def spoken_at(host, port, look_s):
        return Spoken(CLOSED)

    monkeypatch.setattr(connection_failures, "spoken_at", spoken_at)
    return Place("h", 1, "PLAINTEXT", None, ClientConfig(), 0.5)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (SaslAuthenticationFailed("no such user", "more"), r"login refused \(no such user\)"),
        (SaslAuthenticationFailed("", "more"), r"login refused \(wrong user or password\)"),
        (SaslAuthenticationFailed("no such user", ""), r"login refused \(no such user\)"),
        (SaslAuthenticationFailed(), r"login refused \(wrong user or password\)"),
        (OSError(errno.ECONNREFUSED, "at h:1"), r"no connection \(Connection refused\)"),
        (OSError(0, "at h:1"), r"no connection \(at h:1\)"),
        (OSError(None, "at h:1"), r"no connection \(at h:1\)"),
        (
            socket.gaierror(-2, "Name unknown"),
            r"no connection: the host has no address \(Name unknown\)",
        ),
        (TimeoutError(), "no answer in 0.5 s"),
    ],
)
def test_why_there_is_no_connection_is_in_plain_words(closing, error, says):
    found = run(not_connected(error, closing))
    with pytest.raises(ClusterError, match=f"^h:1: {says}") as raised:
        raise found
    assert isinstance(raised.value, Unavailable) != ("login" in says)


def test_a_failure_of_tls_has_its_reason_or_else_its_text():
    error = ssl.SSLError(1, "wrong version number")
    for error.reason, what in ((None, "wrong version number"), ("NO_CIPHER", r"\(NO_CIPHER\)")):
        assert re.search(f"TLS fails .*{what}.*; is security.protocol", tls_failure(error))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ConnectionResetError(errno.ECONNRESET, "reset"), "closes the connection at once"),
        (TimeoutError(), "no response in request.timeout.ms"),
        (b"no response", "a response that cannot be read"),
    ],
)
def test_a_connection_without_a_good_response_is_used_no_more(closing, answer, says):
    class Link:
        closed = 0

        async def send(self, request):
            request.prepare({request.api.key: (0, 9)})
            if isinstance(answer, bytes):
                return answer
            raise answer

        def close(self):
            self.closed += 1

    link = Link()
    with pytest.raises(ClusterError, match=f"^h:1: {says}"):
        run(Connection(link, closing).ask("ListGroups", {}))
    assert link.closed == 1


def fetched(rows):
    row = {"partitionIndex": 0, "errorCode": 0, "highWatermark": 0, "lastStableOffset": 0}
    row |= {"abortedTransactions": None, "records": None}
    return {"errorCode": 0, "sessionId": 0,
            "responses": [{"topic": "t", "partitions": [row] * rows}]}  # fmt: skip


def described(members):
    member = dict.fromkeys(("memberId", "clientId", "clientHost"), "")
    member |= {"memberMetadata": b"", "memberAssignment": b""}
    group = {"errorCode": 0} | dict.fromkeys(
        ("groupId", "groupState", "protocolType", "protocolData"), ""
    )
    return {"groups": [group | {"members": [member] * members}]}


@pytest.mark.parametrize(
    ("api", "version", "body", "answer"),
    [
        ("Fetch", 11, {"topics": [{"partitions": [7] * 2_000}]}, fetched(200_000)),
        ("DescribeGroups", 0, {}, described(1_000_001)),
    ],
)
def test_a_response_with_more_than_was_requested_takes_no_memory(
    closing, api, version, body, answer
):
    """48 MB of empty partitions took 0.9 GB; bounded: the bytes, and elements of lists."""
    frame = encode_response(connections.BY_NAME[api].key, version, answer)

    class Link:
        async def send(self, request):
            request.version = version
            return frame

        def close(self):
            pass

    tracemalloc.start()
    try:
        with pytest.raises(ClusterError, match="elements, more than were requested"):
            run(Connection(Link(), closing).ask(api, body))
        assert tracemalloc.get_traced_memory()[1] < 2 * len(frame)
    finally:
        tracemalloc.stop()


def test_a_response_may_have_what_was_requested():
    body = {"topics": [{"partitions": [7] * 2_000}, {"partitions": [7]}]}
    assert connections.elements_max("Fetch", body) == 16 * 3_001
    key = connections.BY_NAME["Fetch"].key
    frame = encode_response(key, 11, fetched(9))
    fields = 2 + 9 * 8  # of the topic, and of its partitions
    read = decode_response(key, 11, frame, elements_max=fields)
    assert len(read.body["responses"][0]["partitions"]) == 9
    with pytest.raises(WireError, match="partitions: 9 elements, more than were requested"):
        decode_response(key, 11, frame, elements_max=fields - 1)


def test_the_largest_responses_that_are_read_take_a_known_memory():
    """As many elements as are let in: of structs with few fields, with many, and of numbers."""
    part = {"partitionIndex": 0, "errorCode": 0, "leaderId": 300, "leaderEpoch": 0}
    lists = ("replicaNodes", "isrNodes", "offlineReplicas")
    topic = {"errorCode": 0, "name": "t", "isInternal": True}
    body = {"brokers": [], "clusterId": "c", "controllerId": 1}
    for count, numbers in ((15_000, 0), (9_000, 2), (1, 41_000)):
        parts = [part | dict.fromkeys(lists, [300] * numbers)] * count
        answer = body | {"topics": [topic | {"partitions": parts}]}
        frame = encode_response(3, 9, answer)
        tracemalloc.start()
        read = decode_response(3, 9, frame, elements_max=connections.ELEMENTS_MAX // 16)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(read.body["topics"][0]["partitions"]) == count
        assert peak < 12_000_000  # a sixteenth of 0.2 GB


# ---- groups


def test_the_groups_of_all_brokers_are_listed_that_are_of_consumers():
    def listed(node, body):
        rows = {
            1: [("a", "consumer", None), ("", "", "classic"), ("c", "connect", "classic")],
            2: [("d", "consumer", "Consumer"), ("s", "consumer", "Share"), ("e", "", "")],
        }
        fields = ("groupId", "protocolType", "groupType")
        found = [dict(zip(fields, row, strict=True)) for row in rows[node]]
        known = [{name: each[name] for name in each if each[name] is not None} for each in found]
        return {"errorCode": 0, "groups": known}

    cluster = Scripted(nodes=(1, 2), ListGroups=listed)
    assert run(groups.list_groups(cluster)) == {"a", "", "d", "e"}
    refused = Scripted(nodes=(7,), ListGroups={"errorCode": 31, "groups": []})
    with pytest.raises(ClusterError, match="broker 7: no permission: the user needs DESCRIBE"):
        run(groups.list_groups(refused))


def test_the_committed_offsets_of_a_group_are_those_from_0_on():
    def part(number, offset, error=0, **more):
        row = {"partitionIndex": number, "committedOffset": offset, "metadata": f"m{number}"}
        return row | {"errorCode": error} | more

    topics = [
        {"name": "t", "partitions": [part(0, 0, committedLeaderEpoch=5), part(1, -1), part(2, 9)]},
        {"name": "u", "partitions": [part(0, 4)]},
    ]
    cluster = Scripted(OffsetFetch={"errorCode": 0, "topics": topics})
    assert run(groups.committed(cluster, "g")) == {
        ("t", 0): {"offset": 0, "metadata": "m0", "leader_epoch": 5},
        ("t", 2): {"offset": 9, "metadata": "m2"},
        ("u", 0): {"offset": 4, "metadata": "m0"},
    }
    assert cluster.requests == [("g", "OffsetFetch", {"groupId": "g", "topics": None})]
    topics[1]["partitions"] = [part(3, -1, error=29)]
    with pytest.raises(ClusterError, match="group 'g', u-3: no permission"):
        run(groups.committed(cluster, "g"))


def test_a_commit_has_each_topic_once_and_returns_the_code_of_each_partition():
    codes = {("t", 0): 0, ("t", 7): 29, ("u", 1): 3}

    def committed(node, body):
        rows = {}
        for (topic, number), code in codes.items():
            rows.setdefault(topic, []).append({"partitionIndex": number, "errorCode": code})
        return {"topics": [{"name": name, "partitions": some} for name, some in rows.items()]}

    looks = [has({}), has({0: 5})]
    cluster = Scripted(OffsetFetch=lambda *request: looks.pop(0), OffsetCommit=committed)
    offsets = {("t", 0): 5, ("u", 1): 6, ("t", 7): 8}
    assert run(groups.commit(cluster, "g", offsets, {})) == (codes, {}, {}, {})

    def row(number, offset):
        return {"partitionIndex": number, "committedOffset": offset, "committedMetadata": ""}

    _, (_, _, body), _ = cluster.requests
    assert body == {
        "groupId": "g",
        "topics": [
            {"name": "t", "partitions": [row(0, 5), row(7, 8)]},
            {"name": "u", "partitions": [row(1, 6)]},
        ],
    }
    for error in (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE,
                  Error.NOT_COORDINATOR, Error.REQUEST_TIMED_OUT):  # fmt: skip
        codes["t", 0] = error  # of all of them, whatever its row
        looks.append(has({}))
        done = run(groups.commit(cluster, "g", offsets, {}))
        why = f"group 'g': the broker answers {error.name}; it may have been committed"
        assert done == ({}, {}, {}, dict.fromkeys(offsets, why))
    looks.append(has({}))
    done = run(groups.commit(cluster, "g", {("t", 0): 5}, {}))
    why = "t: a response about another partition; it may have been committed"
    assert done.failed == {("t", 0): why}


def has(offsets):
    """The response of OffsetFetch of a group with these offsets of the topic ``t``."""
    rows = [
        {"partitionIndex": number, "committedOffset": offset, "metadata": "", "errorCode": 0}
        for number, offset in offsets.items()
    ]
    return {"errorCode": 0, "topics": [{"name": "t", "partitions": rows}]}


def in_rows(numbers, code=0):
    """The response of OffsetCommit."""
    rows = [{"partitionIndex": number, "errorCode": code} for number in numbers]
    return {"topics": [{"name": "t", "partitions": rows}]}


@pytest.mark.parametrize("lost", [Unavailable("gone"), in_rows([0, 1, 2, 3], 7)])
def test_after_a_lost_answer_of_a_commit_it_looks_again_and_overwrites_nothing(lost):
    """Of four partitions one was committed, one not, one has another commit since, one is gone."""
    before = {("t", number): 10 + number for number in range(4)}
    offsets = {("t", number): 20 + number for number in range(4)}
    looks = [has({0: 10, 1: 11, 2: 12, 3: 13}), has({0: 20, 1: 11, 2: 99})]
    looks.append(has({0: 20, 1: 21, 2: 99}))
    answers, made = [lost, in_rows([1])], []

    def committing(node, body):
        made.append([row["partitionIndex"] for row in body["topics"][0]["partitions"]])
        if isinstance(answer := answers.pop(0), Unavailable):
            raise answer
        return answer

    class Patient(Scripted):
        async def patiently(self, work):
            with pytest.raises(Unavailable):
                await work()
            return await work()

    cluster = Patient(OffsetFetch=lambda *request: looks.pop(0), OffsetCommit=committing)
    codes, changed, missing, failed = run(groups.commit(cluster, "g", offsets, before))
    assert made == [[0, 1, 2, 3], [1]]
    assert codes == {("t", 0): 0, ("t", 1): 0}
    assert (changed, missing, failed) == ({("t", 2): 99, ("t", 3): None}, {}, {})


TWICE = {"errorCode": 0, "topics": has({0: 5})["topics"] * 2}


@pytest.mark.parametrize(
    ("answers", "ask", "says"),
    [
        (dict(DescribeGroups=[]), groups.describe, "group 'g': .* 0 rows, not"),
        (dict(DescribeGroups=["g", "g"]), groups.describe, "group 'g': .* 2 rows, not"),
        (dict(DescribeGroups=["h"]), groups.describe, "group 'g': .* 1 rows, not"),
        (dict(ConsumerGroupDescribe=[]), groups.describe, "group 'g': .* 0 rows, not"),
        (dict(ConsumerGroupDescribe=["g", "g"]), groups.describe, "group 'g': .* 2 rows, not"),
        (dict(OffsetFetch=TWICE), groups.committed, "t-0: a response about it twice"),
    ],
)
def test_rows_that_were_not_requested_are_refused(answers, ask, says):
    made = {
        api: {"groups": [{"groupId": name, "errorCode": 0} for name in answer]}
        if isinstance(answer, list)
        else answer
        for api, answer in answers.items()
    }
    with pytest.raises(ClusterError, match=says):
        run(ask(Scripted(has=list(answers), **made), "g"))


def test_groups_that_are_gone_are_left_out_and_the_others_have_a_reason_or_their_offsets():
    def described(node, body):
        (group,) = body["groups"]
        code = {"refused": 30}.get(group, 0)
        state = "Dead" if group == "gone" else "Empty"
        row = {"errorCode": code, "groupId": group, "groupState": state, "members": []}
        return {"groups": [row | {"protocolType": "consumer", "protocolData": ""}]}

    parts = [{"partitionIndex": 6, "committedOffset": 3, "metadata": "", "errorCode": 0}]
    offsets = {"errorCode": 0, "topics": [{"name": "t", "partitions": parts}]}
    cluster = Scripted(DescribeGroups=described, OffsetFetch=offsets)
    found, failed = run(groups.live_groups(cluster, ["gone", "kept", "refused"]))
    assert list(found) == ["kept"]
    assert (found["kept"]["group_id"], found["kept"]["state"]) == ("kept", "Empty")
    assert found["kept"]["offsets"] == [{"topic": "t", "partition": 6, "offset": 3, "metadata": ""}]
    assert list(failed) == ["refused"]
    assert "no permission: the user needs DESCRIBE on the group" in str(failed["refused"])


def member(name, **fields):
    known = {"memberId": name, "clientId": f"client-{name}", "clientHost": f"/host-{name}"}
    return known | fields


def shown(name, **fields):
    known = {"member_id": name, "client_id": f"client-{name}", "client_host": f"/host-{name}"}
    return known | fields


def of_group(cluster):
    return run(groups.describe(cluster, "g"))


def test_a_consumer_group_is_described_with_its_members_in_order():
    def assigned(*places):
        topics = [{"topicName": topic, "partitions": numbers} for topic, numbers in places]
        return {"topicPartitions": topics}

    members = [
        member("n", instanceId=None, assignment=assigned()),
        member("m", instanceId="i", assignment=assigned(("u", [4]), ("t", [2, 0]))),
    ]
    row = {"errorCode": 0, "groupId": "g", "groupState": "Stable", "members": members}
    row |= {"assignorName": "uniform"}
    cluster = Scripted(has=["ConsumerGroupDescribe"], ConsumerGroupDescribe={"groups": [row]})
    assert of_group(cluster) == {
        "group_id": "g",
        "type": "Consumer",
        "state": "Stable",
        "protocol": "uniform",
        "members": [
            shown("m", group_instance_id="i", assignment=["u:4", "t:2", "t:0"]),
            shown("n", group_instance_id=None, assignment=[]),
        ],
    }
    assert cluster.requests == [("g", "ConsumerGroupDescribe", {"groupIds": ["g"]})]
    row["groupState"] = "Dead"
    row["members"] = []
    assert of_group(cluster) is None


@pytest.mark.parametrize("code", [None, 69, 35])  # no such API; no consumer group; not allowed
def test_a_classic_group_is_described_where_the_group_is_no_consumer_group(code):
    members = [
        member("n", memberAssignment=bytes.fromhex("0000 00000001 0001 74 00000001 00000005"
                                                   "00000000"), groupInstanceId="i"),
        member("m", memberAssignment=b""),
    ]  # fmt: skip
    row = {"errorCode": 0, "groupId": "g", "groupState": "Stable", "members": members}
    row |= {"protocolData": "range"}
    has = [] if code is None else ["ConsumerGroupDescribe"]
    not_consumer = {"groups": [{"groupId": "g", "errorCode": code}]}
    classic = {"groups": [row]}
    cluster = Scripted(has=has, ConsumerGroupDescribe=not_consumer, DescribeGroups=classic)
    known = {"group_id": "g", "type": "Classic", "protocol": "range"}
    m, n = shown("m"), shown("n", group_instance_id="i")
    owned = [m | {"assignment": []}, n | {"assignment": ["t:5"]}]
    assert of_group(cluster) == known | {"state": "Stable", "members": owned}
    row["groupState"] = "CompletingRebalance"  # then there are no assignments
    assert of_group(cluster) == known | {"state": "CompletingRebalance", "members": [m, n]}
    row["errorCode"] = 69
    with pytest.raises(ClusterError, match="it is gone and has members"):
        of_group(cluster)
    row["members"] = []
    assert of_group(cluster) is None
    row["errorCode"] = 15
    with pytest.raises(Unavailable, match="group 'g': the broker answers COORDINATOR_NOT_AVAIL"):
        of_group(cluster)


# ---- topics and offsets


def test_each_leader_is_asked_for_its_partitions_and_a_topic_that_fails_is_skipped():
    ends = {("a", 0): 5, ("a", 1): 6, ("a", 2): 7, ("b", 0): 8}

    def listed(node, body):
        (topic,) = body["topics"]
        rows = [
            {"partitionIndex": part["partitionIndex"], "errorCode": 0,
             "offset": ends[topic["name"], part["partitionIndex"]]}
            for part in topic["partitions"]
        ]  # fmt: skip
        return {"topics": [{"name": topic["name"], "partitions": rows}]}

    leaders = {"b": {0: 2}, "a": {0: 1, 1: 2, 2: 1, 3: None}}
    cluster, skipped = Scripted(leaders=leaders, ListOffsets=listed), []
    found = run(end_offsets(cluster, ["b", "c", "a"], lambda *args: skipped.append(args)))
    assert found == ends
    assert [(topic, type(error)) for topic, error in skipped] == [("c", NoTopic)]
    requests = [
        (node, [part["partitionIndex"] for part in body["topics"][0]["partitions"]])
        for node, _, body in cluster.requests
    ]
    assert requests == [(1, [0, 2]), (2, [1]), (2, [0])]
    timestamps = {
        part["timestamp"]
        for _, _, body in cluster.requests
        for part in body["topics"][0]["partitions"]
    }
    assert timestamps == {-1}  # ListOffsetsRequest.LATEST_TIMESTAMP
    cluster.requests.clear()
    run(end_offsets(cluster, ["b"], skipped.append, EARLIEST))
    ((_, _, body),) = cluster.requests
    assert body["topics"][0]["partitions"] == [{"partitionIndex": 0, "timestamp": -2}]
    assert (body["replicaId"], body["isolationLevel"]) == (-1, 0)


@pytest.mark.parametrize(
    ("topics", "says"),
    [
        ({"t": [(0, -1)]}, "t-0: the broker answers offset -1"),  # it was committed everywhere
        ({"t": [(0, 5), (7, 5)]}, "t: a response about another partition"),
        ({"u": [(0, 5)]}, "u: a response about another partition"),
        ({"t": [(0, 5), (0, 6)]}, "t-0: a response about it twice"),
    ],
)
def test_an_answer_that_is_no_offset_of_a_log_is_none(topics, says):
    answered = [
        {"name": name, "partitions": [
            {"partitionIndex": number, "errorCode": 0, "offset": offset} for number, offset in rows
        ]}
        for name, rows in topics.items()
    ]  # fmt: skip
    cluster, skipped = Scripted(leaders={"t": {0: 1}}, ListOffsets={"topics": answered}), {}
    assert run(end_offsets(cluster, ["t"], skipped.__setitem__)) == {}
    assert str(skipped["t"]) == says


def test_a_topic_has_its_leaders_of_which_0_is_one_and_minus_1_is_none():
    parts = [
        {"partitionIndex": number, "leaderId": leader}
        for number, leader in ((0, 3), (1, 0), (2, -1))
    ]
    topic = {"name": "t", "errorCode": 0, "partitions": parts, "topicId": "x"}
    view = _topic_of(topic)
    assert (view.topic_id, view.leaders) == ("x", {0: 3, 1: 0, 2: None})
    assert view.by_leader([2, 1, 0, 9]) == {0: [1], 3: [0]}
    assert _topic_of(topic | {"errorCode": 5}) == view  # LEADER_NOT_AVAILABLE, of a partition
    with pytest.raises(NoTopic):
        _topic_of(topic | {"errorCode": 3})
    with pytest.raises(ClusterError, match="topic t: no permission"):
        _topic_of(topic | {"errorCode": 29})


@pytest.mark.parametrize(
    ("code", "says", "passes"),
    [
        (-1, "the broker answers UNKNOWN_SERVER_ERROR", False),
        (9_999, "the broker answers error 9999", False),
        (6, "the broker answers NOT_LEADER_OR_FOLLOWER", True),
        (78, "the broker answers OFFSET_NOT_AVAILABLE", True),
        (30, "no permission: the user needs READ on the group", False),
    ],
)
def test_a_code_is_named_and_may_pass_or_not(code, says, passes):
    error = refusal(code, "t-7", "READ")
    assert str(error).startswith("t-7: ")
    if code != 78:  # it has no name here
        assert str(error) == f"t-7: {says}"
    assert isinstance(error, Unavailable) == passes


# ---- versions and frames


def frame_of(api):
    (known,) = (known for known in APIS.values() if known.name == api)
    return connections._Frame(known, {})


@pytest.mark.parametrize(
    ("api", "broker", "version"),
    [
        ("Fetch", (0, 4), 4),  # 0.11, the oldest that stores batches as they come
        ("Fetch", (0, 3), None),
        ("Fetch", (0, 99), 13),  # the newest that is used here
        ("Fetch", (13, 17), 13),
        ("Fetch", (14, 17), None),
        ("OffsetFetch", (0, 2), 2),
        ("OffsetFetch", (0, 1), None),
        ("OffsetFetch", (0, 99), 7),
        ("Metadata", None, None),
    ],
)
def test_a_request_has_the_newest_version_that_both_sides_know(api, broker, version):
    frame, versions = frame_of(api), {} if broker is None else {KEYS[api]: broker}
    if version is None:
        with pytest.raises(ClusterError, match=f"the broker has {api} in versions"):
            frame.prepare(versions)
    else:
        assert frame.prepare(versions).version == version


@pytest.mark.parametrize(
    ("versions", "has"),
    [((0, 0), True), ((0, 99), True), ((99, 120), False), ((5, 4), False), (None, False)],
)
def test_a_broker_has_an_api_if_a_version_of_it_is_known_here(closing, versions, has):
    known = {} if versions is None else {KEYS["ConsumerGroupDescribe"]: versions}
    link = SimpleNamespace(versions=known)
    assert Connection(link, closing).has("ConsumerGroupDescribe") == has


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1, -1, -(2**31)])
def test_a_response_belongs_to_the_request_with_its_number(number):
    frame = BytesIO(number.to_bytes(4, "big", signed=True) + b"the rest")
    assert frame_of("Fetch").parse_response_header(frame).correlation_id == number


class Frames:
    """A stream that gives each frame when it is released; ``read``: what is read now."""

    def __init__(self):
        self.read, self.released = [], asyncio.Event()

    async def readexactly(self, size):
        self.read.append(size)
        await self.released.wait()


def frame(stream, size, *, is_set_up=True, body=None, lock=None):
    link = connections._Link("h", 1)
    link.one_at_a_time = lock or asyncio.Lock()
    if is_set_up:
        link.frame_bytes_max = FRAME_BYTES_MAX
    if body is not None:
        link._requests.append((1, connections._Frame(connections.BY_NAME["Fetch"], body), None))
    return link.frame(stream, size)


@pytest.mark.parametrize(
    ("size", "is_set_up", "is_read"),
    [
        (0, True, True), (FRAME_BYTES_MAX, True, True), (FRAME_BYTES_MAX + 1, True, False),
        (-1, True, False), (SETUP_BYTES_MAX, False, True), (SETUP_BYTES_MAX + 1, False, False),
    ],
)  # fmt: skip
def test_a_frame_is_read_up_to_the_longest_and_no_longer_one(size, is_set_up, is_read):
    """Versions of APIs in 120 MB took 1.6 GB, and more than 90 s."""

    async def read():
        stream = Frames()
        stream.released.set()
        if is_read:
            await frame(stream, size, is_set_up=is_set_up)
        else:
            with pytest.raises(ClusterError, match="not Kafka's protocol"):
                await frame(stream, size, is_set_up=is_set_up)
        assert stream.read == [size] * is_read

    run(read())


def test_frames_that_are_longer_than_requested_come_one_at_a_time():
    """50 leaders that sent 126 MB each took 6 GB."""
    requested = connections.UNREQUESTED_BYTES + 5_000_000

    async def read():
        stream, lock = Frames(), asyncio.Lock()
        tasks = [
            asyncio.ensure_future(frame(stream, size, body={"maxBytes": 5_000_000}, lock=lock))
            for size in (requested, requested + 1, requested + 2, requested)
        ]
        await asyncio.sleep(0)
        assert stream.read == [requested, requested + 1, requested]
        stream.released.set()
        await asyncio.gather(*tasks)
        assert stream.read[3:] == [requested + 2]

    run(read())


def test_a_connection_holds_no_response_while_it_waits_for_the_next_one():
    """The library's loop held the last frame of each connection."""
    frames = []

    class Waits(Exception):
        pass

    class Stream:
        async def readexactly(self, size):
            if size != 4:
                return frames.append(weakref.ref(found := Waits())) or found
            if frames:
                assert [frame() for frame in frames] == [None]
                raise Waits
            return b"\0\0\0\7"

    async def read():
        link = connections._Link("h", 1)
        link._reader, link._handle_frame = Stream(), lambda frame: None
        with pytest.raises(Waits):
            await link._read(lambda: link)
        link._reader = None  # it is not connected

    run(read())


def test_an_error_that_stays_holds_no_response():
    """Each held the frames of its calls, and those the response, until all groups were read."""
    rows = {"groups": [{"groupId": "other"}]}
    cluster = Scripted(DescribeGroups=rows)
    _, failed = run(groups.live_groups(cluster, ["g", "h"]))
    assert [(e.__traceback__, e.__context__, e.__cause__) for e in failed.values()] == [
        (None, None, None)
    ] * 2


def test_assignments_that_are_too_large_are_one_line():
    """One member's assignment of 100 MB took 0.7 GB, if all of its partitions were 0."""
    member = {"memberId": "m", "clientId": "", "clientHost": ""}
    member["memberAssignment"] = bytes(groups.ASSIGNMENTS_BYTES_MAX // 2 + 1)
    row = {"errorCode": 0, "groupId": "g", "groupState": "Stable", "protocolData": "range"}
    cluster = Scripted(DescribeGroups={"groups": [row | {"members": [member] * 2}]})
    with pytest.raises(ClusterError, match="group 'g': assignments of 8,388,610 bytes: too many"):
        run(groups.describe(cluster, "g"))
