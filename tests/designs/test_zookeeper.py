"""ZooKeeper as clients see it: ephemeral nodes, watches that fire once, events in order."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.designs.zookeeper import NodeExists, NoNode, NotEmpty, ZooKeeperError
from support.designs.zookeeper_clients import Client, nodes, service
from support.examples import examples

NAMES = ("a", "b")
PATHS = ["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/b"]
paths = st.sampled_from(PATHS)
quick = settings(max_examples=examples(150))

changes = st.lists(
    st.one_of(
        st.tuples(st.just("create"), paths, st.integers(-1, 2)),
        st.tuples(st.just("delete"), paths, st.none()),
        st.tuples(st.just("set"), paths, st.none()),
        st.tuples(st.just("lost"), st.integers(0, 2), st.none()),
        st.tuples(st.just("returned"), st.integers(0, 2), st.none()),
        st.tuples(st.just("end"), st.integers(0, 2), st.none()),
        st.tuples(st.just("pass"), st.integers(0, 3000), st.none()),
    ),
    max_size=40,
)


def alter(zookeeper, kind, path, session=None):
    """Do one change; whether it was taken."""
    try:
        if kind == "create":
            zookeeper.create(path, "x", session)
        elif kind == "delete":
            zookeeper.delete(path)
        else:
            zookeeper.set(path, "y")
    except ZooKeeperError:
        return False
    return True


@given(changes)
@quick
def test_an_ephemeral_node_never_outlives_its_session(asked):
    schedule, zookeeper = service()
    sessions = [zookeeper.open(str(i), 1000, lambda *event: None) for i in range(3)]
    for kind, what, whose in asked:
        if kind in ("lost", "returned", "end"):
            getattr(zookeeper, kind)(sessions[what])
        elif kind == "pass":
            schedule.run_until(schedule.now_ms + what)
        else:
            session = sessions[whose] if kind == "create" and whose >= 0 else None
            if session is None or session.alive:
                alter(zookeeper, kind, what, session)
        there = nodes(zookeeper)
        assert all(owner is None or owner.alive for _, owner in there.values())
        for session in sessions:
            assert set(session.ephemerals) == {p for p, (_, o) in there.items() if o is session}


@given(changes, paths, st.sampled_from(["get", "exists", "children"]))
@quick
def test_a_watch_fires_once_at_the_first_change_that_it_is_for(asked, watched, how):
    _, zookeeper = service()
    fired = []
    session = zookeeper.open("c", 1000, lambda *event: fired.append(event))
    for kind, path, _ in asked:
        if kind in ("create", "set", "delete"):
            alter(zookeeper, kind, path)
    try:
        getattr(zookeeper.tree, how)(watched, session)
    except NoNode:
        assert how != "exists"  # which alone watches what is not there
        return
    wanted = []
    for kind, path, _ in [*asked, *[("create", path, 0) for path in PATHS]]:
        if kind not in ("create", "set", "delete") or not alter(zookeeper, kind, path):
            continue
        own = path == watched
        below = path.rpartition("/")[0] == watched
        seen = own if how != "children" else (own and kind == "delete") or (below and kind != "set")
        if seen and not wanted:
            kinds = {"create": "created", "delete": "deleted", "set": "data"}
            wanted.append(("children" if below and not own else kinds[kind], watched))
        assert fired == wanted


READS = ("get", "exists", "children")
SUBSETS = [reads for size in (1, 2, 3) for reads in itertools.combinations(READS, size)]


@pytest.mark.parametrize("reads", SUBSETS, ids="+".join)
def test_a_deletion_reaches_each_client_once_whatever_watches_it_has_on_the_node(reads):
    """Source: ZooKeeper 3.4's DataTree.deleteNode.

    Clients that a data watch has notified are left out when child watches fire.
    """
    _, zookeeper = service()
    zookeeper.create("/a")
    events = {name: [] for name in ("many", "data", "child")}
    sessions = {
        name: zookeeper.open(name, 1000, lambda *event, to=name: events[to].append(event))
        for name in events
    }
    for read in reads:
        getattr(zookeeper.tree, read)("/a", sessions["many"])
    zookeeper.tree.get("/a", sessions["data"])
    zookeeper.tree.children("/a", sessions["child"])
    zookeeper.delete("/a")
    assert events == {name: [("deleted", "/a")] for name in events}
    zookeeper.create("/a")
    zookeeper.delete("/a")  # all watches have fired
    assert events == {name: [("deleted", "/a")] for name in events}


def test_a_client_that_watches_a_node_and_its_parent_hears_of_both():
    _, zookeeper = service()
    zookeeper.create("/a")
    zookeeper.create("/a/b")
    events = []
    session = zookeeper.open("c", 1000, lambda *event: events.append(event))
    zookeeper.tree.children("/a", session)
    zookeeper.tree.children("/a/b", session)
    zookeeper.tree.get("/a/b", session)
    zookeeper.delete("/a/b")
    assert events == [("deleted", "/a/b"), ("children", "/a")]


@given(
    st.lists(st.sampled_from(["change", "hold", "release", "cut", "heal", "ask"]), max_size=40),
    st.integers(0, 20),
)
@quick
def test_events_reach_a_client_in_the_order_of_the_changes(steps, delivery_ms):
    schedule, zookeeper = service()
    client = Client(zookeeper, 10**6, delivery_ms=delivery_ms, reconnect_ms=30)
    for i in range(len(steps)):
        zookeeper.tree.exists(f"/{i}", client.connection.session)
    made = 0
    for step in steps:
        if step == "change":
            zookeeper.create(f"/{made}")
            made += 1
        elif step == "ask":
            client.ask(zookeeper.tree.exists, "/")
        else:
            getattr(client.connection, step)()
        schedule.run_until(schedule.now_ms + 7)
        assert client.events == [("created", f"/{i}") for i in range(len(client.events))]
    client.connection.heal()
    client.connection.release()
    schedule.run_until(schedule.now_ms + 1000)
    assert len(client.events) == made
    assert client.expired == 0


def test_an_answer_comes_after_the_events_of_what_it_shows():
    schedule, zookeeper = service()
    client = Client(zookeeper, delivery_ms=50)
    zookeeper.tree.exists("/a", client.connection.session)
    zookeeper.create("/a")
    assert client.ask(zookeeper.tree.exists, "/a") == [True]
    assert client.events == [("created", "/a")]
    schedule.run_until(1000)
    assert client.events == [("created", "/a")]


def test_what_is_asked_over_a_held_connection_is_done_and_answered_later():
    schedule, zookeeper = service()
    client = Client(zookeeper)
    client.connection.hold()
    answers = client.ask(zookeeper.create, "/a")
    schedule.run_until(100_000)
    assert "/a" in zookeeper.tree.nodes
    assert answers == []
    client.connection.release()
    schedule.run_until(100_001)
    assert answers == [None]


def test_what_is_asked_over_a_cut_connection_is_done_under_the_next_session():
    schedule, zookeeper = service()
    client = Client(zookeeper, 6000, reconnect_ms=40)
    before = client.connection.session
    client.connection.cut()
    client.ask(lambda: zookeeper.create("/a", "", client.connection.session))
    schedule.run_until(20_000)
    assert "/a" not in zookeeper.tree.nodes
    client.connection.heal()
    schedule.run_until(20_100)
    assert client.expired == 1
    assert zookeeper.tree.nodes["/a"].owner is client.connection.session is not before


@given(st.integers(0, 5000), st.integers(1, 9000), st.integers(1, 700))
@quick
def test_a_session_ends_at_the_first_tick_after_its_timeout(lost_ms, timeout_ms, tick_ms):
    schedule, zookeeper = service(tick_ms)
    session = zookeeper.open("c", timeout_ms, lambda *event: None)
    schedule.run_until(lost_ms)
    zookeeper.lost(session)
    end_ms = next(ms for ms in range(lost_ms + timeout_ms + 1, 10**6) if ms % tick_ms == 0)
    schedule.run_until(end_ms - 1)
    assert session.alive
    schedule.run_until(end_ms)
    assert not session.alive


def test_a_client_that_returns_in_time_keeps_its_session_and_hears_what_it_missed():
    schedule, zookeeper = service()
    client = Client(zookeeper, 6000, reconnect_ms=100)
    zookeeper.create("/a", "", client.connection.session)
    zookeeper.tree.children("/", client.connection.session)
    client.connection.cut()
    zookeeper.create("/b")
    schedule.run_until(5000)
    client.connection.heal()
    schedule.run_until(60_000)
    assert client.events == [("children", "/")]
    assert client.expired == 0
    assert "/a" in zookeeper.tree.nodes


def test_a_client_that_closes_before_it_is_connected_again_leaves_its_session_to_its_timeout():
    schedule, zookeeper = service()
    client = Client(zookeeper, 6000, reconnect_ms=100)
    zookeeper.create("/a", "", client.connection.session)
    client.connection.cut()
    client.connection.heal()
    client.connection.close()
    schedule.run_until(6400)
    assert "/a" in zookeeper.tree.nodes
    schedule.run_until(6500)
    assert "/a" not in zookeeper.tree.nodes


def test_what_is_refused_says_why():
    _, zookeeper = service()
    zookeeper.create("/a")
    zookeeper.create("/a/b")
    with pytest.raises(NodeExists):
        zookeeper.create("/a")
    with pytest.raises(NoNode):
        zookeeper.create("/c/d")
    with pytest.raises(NotEmpty):
        zookeeper.delete("/a")
    with pytest.raises(NoNode):
        zookeeper.set("/c", "")
