"""A running server in the loop of its caller: its addresses, its end, waits for groups."""

import asyncio
import socket

import pytest

from coterie.base.operations import NUMBER
from coterie.errors import CoterieError
from coterie.server.options import Options, Place
from coterie.server.running import Running
from support.patience import HANG_S
from support.server.sockets import free_port

ANY = Place("plaintext", "127.0.0.1", 0)


def serve(act, **options):
    """Run a server while a coroutine function of it runs; what that returns."""

    async def main():
        running = Running(Options(virtual=True, **options), lambda line: None)
        try:
            await running.start()
            return await act(running)
        finally:
            await running.stop()

    return asyncio.run(main())


def is_open(port):
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def test_each_listener_is_advertised_with_its_port_unless_another_is_given():
    async def addresses(running):
        (node,) = running.cluster.nodes.values()
        assert [place.label for place in running.bound] == ["plaintext", "OTHER", "plaintext"]
        assert len({place.port for place in running.bound}) == 3
        return [*node.addresses.values()], [place.port for place in running.bound]

    places = (ANY, ANY._replace(name="OTHER"), ANY)
    advertised = (Place("plaintext", "kafka.test", 0), Place("plaintext", "a.test", 19092), None)
    found, ports = serve(addresses, places=places, advertised=advertised)
    assert found == [("kafka.test", ports[0]), ("a.test", 19092), ("127.0.0.1", ports[2])]


def test_an_address_that_is_taken_closes_those_that_were_opened_before_it():
    async def start(first_port):
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = ANY._replace(port=other.getsockname()[1])
            running = Running(Options(places=(ANY._replace(port=first_port), taken)))
            with pytest.raises(CoterieError, match=rf"{taken.address} cannot be listened on \("):
                await running.start()
            return is_open(first_port)

    assert not asyncio.run(start(free_port()))


def test_what_is_served_beside_it_ends_with_it_and_so_do_its_ports_and_its_clock():
    class Beside:
        closed = False

        def close(self):
            self.closed = True

    beside = Beside()

    async def add(running):
        running.beside(beside)
        assert not beside.closed
        (place,) = running.bound
        assert is_open(place.port)
        return running

    running = serve(add)
    assert beside.closed
    assert not is_open(running.bound[0].port)
    cluster = running.cluster
    assert (cluster.waits.on_armed, cluster.timers.on_armed) == (None, None)


def test_a_server_that_was_not_started_can_be_stopped():
    asyncio.run(Running(Options()).stop())


def test_a_wait_for_a_group_ends_when_its_broker_is_killed_or_comes_back():
    async def wait(running):
        groups = running.cluster.groups
        groups.ask_row(  # a simple group: an offset and no members
            NUMBER["offset_commit"], "g", -1, "", None,
            (((("t", 0), 5, -1, "", None, -1),), -1, -1), lambda *answer: None,
        )  # fmt: skip
        assert running.cluster.groups.snapshot("g").state == "Empty"
        states = []
        for act, state in ((running.kill, "Dead"), (running.revive, "Empty")):
            waiting = asyncio.ensure_future(running.wait_for("g", state=state, timeout_s=HANG_S))
            await asyncio.sleep(0)
            await act()
            await waiting
            states.append(state)
        return states

    assert serve(wait) == ["Dead", "Empty"]


def test_the_first_request_that_is_watched_is_the_first_one_of_the_log():
    async def requests(running):
        assert running.watch is running.watch
        assert running.stage is running.stage
        return list(running.watch.requests), running.connections

    assert serve(requests) == ([], 0)


def test_a_wall_clock_is_not_advanced():
    running = Running(Options(), lambda line: None)
    with pytest.raises(CoterieError, match="the clock is the wall's"):
        running.advance(1)
    virtual = Running(Options(virtual=True), lambda line: None)
    virtual.advance(1500)
    assert virtual.cluster.now_ms == 1500
    assert int(virtual.cluster.config["log.message.timestamp.after.max.ms"]) == 2**63 - 1
    limit = {"log.message.timestamp.after.max.ms": 7}
    own = Running(Options(virtual=True, config=limit), lambda line: None)
    assert int(own.cluster.config["log.message.timestamp.after.max.ms"]) == 7
