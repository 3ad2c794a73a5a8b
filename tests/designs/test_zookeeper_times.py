"""When events and connections of ZooKeeper come, and what a new session of a client forgets."""

import pytest

from coterie.base.schedule import Task
from coterie.designs.zookeeper import ZooKeeperError
from support.designs.zookeeper_clients import Client, nodes, service


def test_an_event_and_a_new_connection_take_their_times():
    schedule, zookeeper = service()
    client = Client(zookeeper, 60_000, delivery_ms=35, reconnect_ms=410)
    schedule.run_until(3_000)
    zookeeper.tree.exists("/a", client.connection.session)
    zookeeper.create("/a")
    schedule.run_until(3_034)
    assert client.events == []
    schedule.run_until(3_035)
    assert client.events == [("created", "/a")]
    client.connection.cut()
    client.connection.heal()
    schedule.run_until(3_035 + 409)
    assert not client.connection.connected
    schedule.run_until(3_035 + 410)
    assert client.connection.connected


def test_each_cut_begins_the_timeout_anew_in_a_later_session_too():
    """A connection may be cut again before it is open again, and sessions follow one another."""
    schedule, zookeeper = service()
    client = Client(zookeeper, 6_200, reconnect_ms=100)
    connection, first = client.connection, client.connection.session
    schedule.run_until(1_000)
    for _ in range(2):
        connection.cut()
        connection.heal()
        schedule.run_until(schedule.now_ms + 50)
    assert not connection.connected
    connection.cut()
    schedule.run_until(7_000)
    connection.heal()
    schedule.run_until(7_100)  # the first session was to end at 7,500
    assert connection.session is first
    assert first.alive
    for cut_ms, end_ms in ((8_200, 14_500), (20_300, 27_000)):
        schedule.run_until(cut_ms)
        session = connection.session
        connection.cut()
        schedule.run_until(end_ms - 1)
        assert session.alive
        schedule.run_until(end_ms)
        assert not session.alive
        connection.heal()
        schedule.run_until(end_ms + 100)
        assert connection.session is not session
    assert client.expired == 2


def test_events_of_a_session_that_has_ended_never_come():
    schedule, zookeeper = service()
    client = Client(zookeeper, 1_000, reconnect_ms=100)
    zookeeper.tree.children("/", client.connection.session)
    client.connection.cut()
    zookeeper.create("/a")
    schedule.run_until(60_000)
    client.connection.heal()
    schedule.run_until(61_000)
    assert (client.events, client.expired) == ([], 1)
    zookeeper.tree.children("/", client.connection.session)
    client.connection.expire()
    zookeeper.tree.delete("/a")
    schedule.run_until(62_000)
    assert (client.events, client.expired) == ([], 2)


@pytest.mark.parametrize("end", ["close", "crash"])
@pytest.mark.parametrize("before", [[], ["hold"], ["cut"], ["cut", "heal"]], ids="-".join)
def test_nothing_reaches_a_client_that_has_ended_and_it_never_returns(end, before):
    schedule, zookeeper = service()
    client = Client(zookeeper, 1_000, delivery_ms=50, reconnect_ms=100)
    session = client.connection.session
    for path in ("/a", "/b"):
        zookeeper.tree.exists(path, session)
    zookeeper.create("/a")
    for step in (*before, end):
        getattr(client.connection, step)()
    zookeeper.create("/b")
    assert session.alive == (end == "crash" or "cut" in before)
    client.connection.release()
    client.connection.heal()
    schedule.run_until(60_000)
    assert (client.events, client.expired, session.alive) == ([], 0, False)
    assert not client.connection.connected or end == "close"


def test_a_change_fires_the_watches_of_a_node_before_those_of_its_parent():
    """Source: ZooKeeper 3.4's DataTree.createNode, deleteNode."""
    _, zookeeper = service()
    events = []
    zookeeper.create("/p")
    session = zookeeper.open("c", 1000, lambda *event: events.append(event))
    for change, kind in ((zookeeper.create, "created"), (zookeeper.delete, "deleted")):
        events.clear()
        zookeeper.tree.children("/p", session)
        zookeeper.tree.exists("/p/a", session)
        change("/p/a")
        assert events == [(kind, "/p/a"), ("children", "/p")]


def test_the_count_of_changes_below_a_node_grows_with_each():
    _, zookeeper = service()
    zookeeper.create("/p")
    node, counts = zookeeper.tree.nodes["/p"], []
    for change in (
        lambda: zookeeper.create("/p/a"),
        lambda: zookeeper.set("/p/a", "x"),
        lambda: zookeeper.create("/p/b"),
        lambda: zookeeper.delete("/p/a"),
        lambda: zookeeper.set("/p/b", ""),
        lambda: zookeeper.create("/p/a"),
    ):
        change()
        counts.append(node.below)
    assert counts == sorted({*counts})
    assert zookeeper.tree.children("/p") == ("a", "b")
    zookeeper.delete("/p/a")
    zookeeper.create("/p/0")
    assert zookeeper.tree.children("/p") == ("0", "b")
    assert list(zookeeper.tree.paths_below("/")) == ["/p", "/p/0", "/p/b"]


def test_a_node_is_created_with_its_missing_parents_which_stay():
    _, zookeeper = service()
    session = zookeeper.open("c", 1000, lambda *event: None)
    assert zookeeper.create_with_parents("/a/b/c", "x", session) == 3
    assert zookeeper.create_with_parents("/a/b/d", "y") == 1
    assert nodes(zookeeper) == {
        "/a": ("", None), "/a/b": ("", None), "/a/b/c": ("x", session), "/a/b/d": ("y", None)
    }  # fmt: skip
    with pytest.raises(ZooKeeperError):
        zookeeper.create_with_parents("/a/b/c/d")
    zookeeper.end(session)
    assert sorted(nodes(zookeeper)) == ["/a", "/a/b", "/a/b/d"]


def test_a_request_counts_once_or_as_often_as_it_says_when_it_arrives():
    schedule, zookeeper = service()
    client = Client(zookeeper, reconnect_ms=40)
    client.ask(zookeeper.tree.exists, "/")
    assert client.connection.operations == 1
    client.connection.cut()

    def thrice():
        yield from client.connection.call(zookeeper.tree.exists, "/", count=3)

    Task(schedule, thrice())
    assert client.connection.operations == 1
    client.connection.heal()
    schedule.run_until(40)
    assert client.connection.operations == 4
