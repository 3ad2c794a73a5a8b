"""A listener takes all connections that wait in one turn of its loop."""

import asyncio
import errno
import socket
from types import SimpleNamespace

import pytest

from coterie.server import Broker
from coterie.server.net.accepting import Acceptor
from coterie.server.net.listener import Peer
from coterie.server.options import Place
from support.server import sockets

MANY = 60


def uvloops():
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, uvloops], ids=["asyncio", "uvloop"])
def loop(request):
    made = request.param()
    yield made
    made.close()


class Noted(asyncio.Protocol):
    def __init__(self, turns):
        self.turns = turns

    def connection_made(self, transport):
        self.turns.made.append((self.turns.count, transport))


class Turns:
    """Counts the turns of a loop, and says in which one each connection was made."""

    def __init__(self, loop):
        self.loop, self.count, self.made = loop, 0, []
        self.turn()

    def turn(self):
        self.count += 1
        self.loop.call_soon(self.turn)

    def protocol(self):
        return Noted(self)

    async def all_made(self):
        while len(self.made) < MANY:
            await asyncio.sleep(0)


def listening(loop, factory, host="127.0.0.1"):
    async def begin():
        acceptor = Acceptor(factory, None)
        await acceptor.listen(Place("PLAINTEXT", host, 0))
        return acceptor

    return loop.run_until_complete(begin())


def test_connections_that_wait_are_all_taken_in_one_turn(loop):
    turns = Turns(loop)
    acceptor = listening(loop, turns.protocol)
    clients = [socket.create_connection(("127.0.0.1", acceptor.port)) for _ in range(MANY)]
    loop.run_until_complete(turns.all_made())
    acceptor.close()
    for transport in (*(transport for _, transport in turns.made), *clients):
        transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    took = [turn for turn, _ in turns.made]
    assert max(took) - min(took) <= 1


def test_a_listener_may_be_closed_again(loop):
    acceptor = listening(loop, asyncio.Protocol)
    port = acceptor.port
    acceptor.close()
    acceptor.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


BUFFERS = {"socket.send.buffer.bytes": socket.SO_SNDBUF,
           "socket.receive.buffer.bytes": socket.SO_RCVBUF}  # fmt: skip


def size_of_buffer(option, size):
    """The size that the system reports for a buffer of a requested size; -1: its default."""
    with socket.socket() as fresh:
        if size >= 0:
            fresh.setsockopt(socket.SOL_SOCKET, option, size)
        return fresh.getsockopt(socket.SOL_SOCKET, option)


@pytest.mark.parametrize("size", [30_000, None])
@pytest.mark.parametrize("name", BUFFERS)
def test_a_connection_has_buffers_of_the_size_that_is_set_or_of_kafkas(monkeypatch, name, size):
    sizes, made = [], Peer.connection_made

    def connection_made(peer, transport):
        opened = transport.get_extra_info("socket")
        sizes.append(opened.getsockopt(socket.SOL_SOCKET, BUFFERS[name]))
        made(peer, transport)

    monkeypatch.setattr(Peer, "connection_made", connection_made)
    with Broker(config={} if size is None else {name: size}) as broker:
        sockets.ask(sockets.connect(broker), "ApiVersions", 0, {})
    assert sizes == [size_of_buffer(BUFFERS[name], 102_400 if size is None else size)]


@pytest.mark.parametrize("option", BUFFERS.values())
def test_the_system_chooses_a_size_of_minus_one(loop, option):
    async def begin():
        acceptor = Acceptor(asyncio.Protocol, None, send_bytes=-1, receive_bytes=-1)
        await acceptor.listen(Place("PLAINTEXT", "127.0.0.1", 0))
        return acceptor

    acceptor = loop.run_until_complete(begin())
    (listening_socket,) = acceptor._sockets
    assert listening_socket.getsockopt(socket.SOL_SOCKET, option) == size_of_buffer(option, -1)
    acceptor.close()


def test_a_closed_listener_takes_nobody_and_leaves_its_port(loop):
    acceptor = listening(loop, asyncio.Protocol)
    port = acceptor.port
    acceptor.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


class Recorded:
    """A loop that records its calls."""

    def __init__(self):
        self.readers, self.later = [], []

    def add_reader(self, *asked):
        self.readers.append(asked)

    def remove_reader(self, listening):
        self.readers = [asked for asked in self.readers if asked[0] is not listening]

    def call_later(self, _, *asked):
        self.later.append(asked)


class Exhausted:
    """A socket of a process that may have no more."""

    def accept(self):
        raise OSError(errno.EMFILE, "Too many open files")


def test_a_listener_rests_while_the_process_may_have_no_more_sockets(monkeypatch):
    loop, exhausted = Recorded(), Exhausted()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    acceptor = Acceptor(asyncio.Protocol, None)
    acceptor._sockets = [exhausted]
    loop.add_reader(exhausted, acceptor._accept, exhausted)
    acceptor._accept(exhausted)
    assert not loop.readers
    ((resume, *given),) = loop.later
    resume(*given)
    assert [asked[0] for asked in loop.readers] == [exhausted]


def test_a_machine_without_ipv6_listens_where_else_it_can(loop, monkeypatch):
    make = socket.socket

    def without_ipv6(family=socket.AF_INET, *others, **more):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *others, **more)

    async def begin():
        return Acceptor(asyncio.Protocol, None)

    acceptor = loop.run_until_complete(begin())
    acceptor.port = 0
    monkeypatch.setattr(socket, "socket", without_ipv6)
    acceptor._open(socket.AF_INET6, ("::1", 0, 0, 0))
    acceptor._open(socket.AF_INET, ("127.0.0.1", 0))
    families = [each.family for each in acceptor._sockets]
    acceptor.close()
    assert families == [socket.AF_INET]


class Waiting:
    """A listening socket: clients that wait, and what went wrong with some."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    def accept(self):
        if not self.outcomes:
            raise BlockingIOError
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, None

    def close(self):
        self.outcomes = [OSError(errno.EBADF, "closed")]


class Greeting(Recorded):
    """A loop that greets nobody, and counts whom it was to greet."""

    def __init__(self):
        super().__init__()
        self.greeted, self.pauses_s, self.unused = 0, [], asyncio.new_event_loop()

    def create_task(self, greeting):
        greeting.close()
        self.greeted += 1
        return asyncio.Future(loop=self.unused)

    def call_later(self, pause_s, *call):
        self.pauses_s.append(pause_s)
        super().call_later(pause_s, *call)


@pytest.fixture
def greeting(monkeypatch):
    made = Greeting()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    yield made
    made.unused.close()


def accepting(loop, *outcomes):
    """An acceptor with a listening socket whose clients wait."""
    acceptor, waiting = Acceptor(asyncio.Protocol, None), Waiting(*outcomes)
    acceptor._sockets = [waiting]
    loop.add_reader(waiting, acceptor._accept, waiting)
    return acceptor, waiting


CLIENT = SimpleNamespace(setblocking=lambda _: None)


def test_a_client_that_left_while_it_waited_holds_up_no_other(greeting):
    acceptor, waiting = accepting(
        greeting, ConnectionAbortedError(), CLIENT, InterruptedError(), CLIENT
    )
    acceptor._accept(waiting)
    assert greeting.greeted == 2


def test_a_hundred_clients_are_accepted_in_one_turn(greeting):
    acceptor, waiting = accepting(greeting, *[CLIENT] * 150)
    counts = []
    for _ in range(3):
        acceptor._accept(waiting)
        counts.append(greeting.greeted)
    assert counts == [100, 150, 150]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_a_listener_rests_for_a_second_and_stays_away_if_it_was_closed(greeting, number):
    acceptor, waiting = accepting(greeting, OSError(number, "lacking"), CLIENT)
    acceptor._accept(waiting)
    assert (greeting.greeted, greeting.pauses_s) == (0, [1])
    acceptor.close()
    ((resume, *given),) = greeting.later
    resume(*given)
    assert not greeting.readers


def test_another_error_of_a_listening_socket_is_raised(greeting):
    acceptor, waiting = accepting(greeting, OSError(errno.EBADF, "closed"))
    with pytest.raises(OSError, match="closed"):
        acceptor._accept(waiting)
    assert not greeting.pauses_s
