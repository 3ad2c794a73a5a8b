"""``--control``: the requests of tests in other languages, asked without a socket."""

import asyncio
import base64
import json
from types import SimpleNamespace

import pytest

from coterie.base.arguments import text
from coterie.errors import CoterieError
from coterie.server.api.faults import Watch
from coterie.server.control import Control
from coterie.server.http_messages import HttpRequest, Refusal
from coterie.testing import subscription
from support.patience import HANG_S
from support.server import asking, playing


class Controlled:
    """A server, its control, and a client of each."""

    def __init__(self):
        self.server = playing.Server(playing.BROKER)
        self.done = []
        cluster = self.server.cluster
        watch = self.server.dispatcher.observer = Watch(cluster)
        self.running = SimpleNamespace(
            cluster=cluster,
            watch=watch,
            advance=self.advance,
            kill=self.note("kill"),
            revive=self.note("start"),
            move_coordinator=self.move,
        )
        self.control = Control(self.running)
        self.peer = self.server.connect()

    def advance(self, ms):
        if ms == 13:
            raise CoterieError("the clock is the wall's")
        self.server.cluster.clock.advance(ms)

    def move(self, group_id, node):
        self.server.cluster.groups.move(text(group_id, "group_id"))
        self.done.append(("move", node))

    def note(self, what):
        async def noted(node):
            self.done.append((what, node))

        return noted

    def __call__(self, method, path, body=None):
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        request = HttpRequest(method, path, {}, body=data)
        answer = asyncio.run(self.control.respond(request))
        assert answer.status == 200
        return json.loads(answer.body)

    def refused(self, *how):
        with pytest.raises(Refusal) as refused:
            self(*how)
        return refused.value.status, refused.value.what


def test_time_moves_when_it_is_told():
    control = Controlled()
    assert control("POST", "/advance", {"ms": 5000}) == {"now_ms": playing.START_MS + 5000}
    assert control.server.cluster.now_ms == playing.START_MS + 5000


def test_a_member_is_gone_when_its_session_ended():
    control = Controlled()
    control.server.cluster.topics.create("t", 1)
    asking.member(control.peer, "żółw/1")
    path = "/snapshot/%C5%BC%C3%B3%C5%82w%2F1"
    shown = control("GET", path)
    assert shown["group_id"] == "żółw/1"
    assert shown["state"] == "Stable"
    assert [base64.b64decode(each["assignment"]) for each in shown["members"]] == [b"mine"]
    control("POST", "/advance", {"ms": 30_001})
    assert control("GET", path)["members"] == []


def test_sets_are_told_in_order():
    control = Controlled()
    topics = [f"t{number}" for number in range(9)]
    protocols = [{"name": "range", "metadata": subscription(topics)}]
    asking.ask(control.peer, "JoinGroup", 3, asking.joining("g", protocols=protocols))
    assert control("GET", "/snapshot/g")["subscribed_topics"] == topics


def test_offsets_are_told_by_partition():
    control = Controlled()
    control.server.cluster.topics.create("t", 1)
    offsets = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": "m"}]
    body = {"groupId": "g", "topics": [{"name": "t", "partitions": offsets}]}
    asking.ask(control.peer, "OffsetCommit", 8, body)
    response = control("GET", "/snapshot/g")["offsets"]["t-0"]
    assert (response["offset"], response["metadata"]) == (7, "m")


def test_a_fault_meets_the_next_request_alone():
    control = Controlled()
    control("POST", "/fail", {"api": "ListGroups", "error": "COORDINATOR_NOT_AVAILABLE"})
    asked = [asking.ask(control.peer, "ListGroups", 4, {})["errorCode"] for _ in range(2)]
    assert asked == [15, 0]


def test_a_fault_is_asked_for_and_ended_by_its_id():
    control = Controlled()
    first = control("POST", "/fail", {"api": "Heartbeat", "delay_ms": 5, "times": 7})["id"]
    endless = {"api": "ListGroups", "error": "COORDINATOR_NOT_AVAILABLE", "times": None}
    second = control("POST", "/fail", endless)["id"]
    assert control("GET", f"/fail/{first}") == {"id": first, "count": 0, "left": 7}

    def asked():
        return asking.ask(control.peer, "ListGroups", 4, {})["errorCode"]

    assert [asked(), asked()] == [15, 15]
    assert control("GET", f"/fail/{second}") == {"id": second, "count": 2, "left": None}
    assert control("DELETE", f"/fail/{second}") == {"id": second, "count": 2, "left": 0}
    assert asked() == 0
    assert control("GET", f"/fail/{second}") == {"id": second, "count": 2, "left": 0}
    assert control("GET", f"/fail/{first}")["left"] == 7


def test_requests_are_told_with_their_bodies_and_who_asked():
    control = Controlled()
    body = {"groupId": "g", "assignments": [{"memberId": "m", "assignment": b"\0\1"}]}
    asking.ask(control.peer, "SyncGroup", 1, body, client_id="me")
    (response,) = control("GET", "/requests")
    assert (response["api"], response["version"], response["client_id"]) == ("SyncGroup", 1, "me")
    assert response["principal"] == "User:ANONYMOUS"
    assert response["body"]["assignments"] == [{"memberId": "m", "assignment": "AAE="}]


def test_passwords_are_not_told():
    control = Controlled()
    peer = control.server.connect("sasl")
    asking.ask(peer, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    token = b"\0alice\0alice-secret"
    assert asking.ask(peer, "SaslAuthenticate", 1, {"authBytes": token})["errorCode"] == 0
    assert [each["body"] for each in control("GET", "/requests")] == [{"mechanism": "PLAIN"}, {}]


def test_brokers_are_killed_and_started_and_groups_moved():
    control = Controlled()
    asking.member(control.peer, "g")
    assert control("POST", "/kill", {"node": 1}) == {}
    assert control("POST", "/start") == {}
    assert control.done == [("kill", 1), ("start", None)]
    assert control("POST", "/move", {"group_id": "g", "node": 1}) == {}
    assert control("GET", "/snapshot/g")["group_id"] == "g"


def test_a_broker_need_not_be_named():
    control = Controlled()
    asking.member(control.peer, "g")
    assert control("POST", "/kill") == control("POST", "/move", {"group_id": "g"}) == {}
    assert control.done == [("kill", None), ("move", None)]


def test_a_wait_has_its_condition_and_up_to_fifty_seconds_or_else_ten():
    control, waits = Controlled(), []

    async def wait_for(group_id, **how):
        waits.append((group_id, how))
        return control.server.cluster.groups.snapshot(group_id)

    control.running.wait_for = wait_for
    asking.member(control.peer, "g")
    for how in ({"state": "Stable", "timeout_s": 50}, {"members": 1}):
        assert control("POST", "/wait", {"group_id": "g", **how})["state"] == "Stable"
    assert waits == [
        ("g", {"state": "Stable", "timeout_s": 50}),
        ("g", {"members": 1, "timeout_s": 10}),
    ]


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/" + "x" * 99, f"GET /{'x' * 59}: there are "),
        ("POST", "/" + "x" * 99, f"POST /{'x' * 59}: there are "),
        ("GET", "/snapshot/" + "x" * 999, f"there is no group '{'x' * 200}'"),
        ("GET", "/fail/" + "1" * 99, f"there is no fault '{'1' * 60}'"),
        ("PUT", "/fail/" + "1" * 99, f"/fail/{'1' * 54} is read by GET"),
    ],
)
def test_a_message_shows_the_beginning_of_a_long_name(method, path, what):
    assert Controlled().refused(method, path)[1].startswith(what)


@pytest.mark.parametrize(
    ("how", "status", "what"),
    [
        (("GET", "/"), 404, "there are POST /advance"),
        (("GET", "/advance"), 404, "there are POST /advance"),
        (("POST", "/requests"), 404, "there are POST /advance"),
        (("PUT", "/advance", {"ms": 1}), 405, "/advance is asked by POST"),
        (("GET", "/snapshot/none"), 404, "there is no group 'none'"),
        (("POST", "/advance", b"{"), 400, "the body is not JSON"),
        (("POST", "/advance", b"\xff"), 400, "the body is not JSON"),
        (("POST", "/advance", b"[" * 100_000), 400, "the body is not JSON"),
        (("POST", "/advance", [1]), 400, "the body must be an object"),
        (("POST", "/advance"), 400, "missing 1 required keyword-only argument: 'ms'"),
        (("POST", "/advance", {"ms": 1, "x": 2}), 400, "unexpected keyword argument 'x'"),
        (("POST", "/move", {"groupid": "g"}), 400, "'groupid'; did you mean 'group_id'"),
        (("POST", "/advance", {"ms": "1"}), 400, "ms must be"),
        (("POST", "/advance", {"ms": -1}), 400, "ms must not be negative"),
        (("POST", "/advance", {"ms": 13}), 400, "the clock is the wall's"),
        (("POST", "/fail", {"api": "Nothing", "error": "NONE"}), 400, "is no API"),
        (("POST", "/fail", {"api": "Heartbeat"}), 400, "a fault needs"),
        (("POST", "/fail", {"api": "Heartbeat", "how": 1}), 400, "unexpected keyword argument"),
        (("GET", "/fail/1"), 404, "there is no fault '1'"),
        (("GET", "/fail/"), 404, "there is no fault ''"),
        (("GET", "/fail/²"), 404, "there is no fault"),
        (("GET", "/fail/" + "1" * 5000), 404, "there is no fault '1"),
        (("DELETE", "/fail/-1"), 404, "there is no fault '-1'"),
        (("POST", "/fail/1"), 405, "/fail/1 is read by GET, and ended by DELETE"),
        (("DELETE", "/fail"), 405, "/fail is asked by POST"),
        (("POST", "/fail", {"api": "Heartbeat", "error": "NONE"}), 400, "not NONE"),
        (("POST", "/wait", {"state": "Stable"}), 400, "argument: 'group_id'"),
        (
            ("POST", "/wait", {"group_id": "g", "timeout_s": 51}),
            400,
            "timeout_s must be at most",
        ),
        (("POST", "/move", {"group_id": 1}), 400, "group_id must be"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(how, status, what):
    found = Controlled().refused(*how)
    assert found[0] == status
    assert what in found[1]
    assert "\n" not in found[1]


def test_a_broker_is_started_though_the_client_is_gone():
    control, begun, free = Controlled(), asyncio.Event(), asyncio.Event()

    async def revive(node):
        begun.set()
        await free.wait()
        control.done.append("start")

    async def scenario():
        control.running.revive = revive
        responding = asyncio.ensure_future(
            control.control.respond(HttpRequest("POST", "/start", {}))
        )
        await begun.wait()
        responding.cancel()
        await asyncio.wait([responding])
        free.set()
        while not control.done:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
