"""The HTTP beside a server: requests are read or refused, and hostile clients hold up nobody."""

import asyncio
import errno
import json
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.server.access import Access
from coterie.server.http import HttpSite, Limits, serve
from coterie.server.http_messages import Answer, HttpRequest, Refusal, json_answer, read_head
from coterie.server.net.tls import server_context
from coterie.server.options import Place
from support.patience import HANG_S

GET = b"GET /a?b=1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n"
LAST = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
HERE = Place("HTTP", "127.0.0.1", 0)
ALL = Access(methods=("GET", "HEAD", "POST"))
SHORT_S = 0.05  # for peers that are waited for in vain


def head(*fields, first="POST /x HTTP/1.1"):
    return "\r\n".join((first, *fields, "", "")).encode("latin-1")


def test_a_head_is_read():
    fields = {"host": "localhost:1"}
    assert read_head(GET) == HttpRequest("GET", "/a?b=1", fields, 0, True)
    given = head("host: h", "CONTENT-LENGTH: 12", "Origin:http://a", "Connection:  close ")
    fields = {"host": "h", "content-length": "12", "origin": "http://a", "connection": "close"}
    assert read_head(given) == HttpRequest("POST", "/x", fields, 12, False)


@pytest.mark.parametrize(
    ("text", "length"), [("1048576", 1 << 20), ("000000012", 12), ("  7 ", 7), ("\t7\t", 7)]
)
def test_a_length_is_a_number_up_to_a_mebibyte_with_spaces_around_it(text, length):
    """RFC 9110: 5.5 and 8.6."""
    assert read_head(head(f"Content-Length:{text}")).length == length


@pytest.mark.parametrize(
    ("first", "field", "keeps"),
    [
        ("GET / HTTP/1.1", "X: y", True),
        ("GET / HTTP/1.1", "Connection: Close", False),
        ("GET / HTTP/1.0", "X: y", False),
        ("GET / HTTP/1.0", "Connection: Keep-Alive", True),
    ],
)
def test_a_connection_is_kept_as_its_version_has_it(first, field, keeps):
    assert read_head(head(field, first=first)).keeps is keeps


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head(first=""), 400),
        (head(first="GET /"), 400),
        (head(first="GET / HTTP/2"), 400),
        (head(first="GET / / HTTP/1.1"), 400),
        (head("Content-Length: -1"), 400),
        (head("Content-Length: 1 2"), 400),
        (head("Content-Length: ²"), 400),
        (head("Content-Length: 1048577"), 413),
        (head("Content-Length: " + "9" * 5000), 413),
        (head("Transfer-Encoding: chunked"), 411),
        # what two readers of a head could read in two ways (RFC 9112: 5.1, 5.2, 6.3)
        (head("Content-Length: 1", "content-length: 1"), 400),
        (head("Host: localhost", "Host: evil"), 400),
        (head("Content-Length : 1"), 400),
        (head("Host: localhost", " Content-Length: 1"), 400),
        (head("Host: localhost\nContent-Length: 1"), 400),
        (head("Content-Length"), 400),
    ],
)
def test_another_head_is_refused(data, status):
    with pytest.raises(Refusal) as refused:
        read_head(data)
    assert refused.value.status == status


@given(st.binary(max_size=200))
def test_bytes_without_a_version_are_refused(data):
    with pytest.raises(Refusal) as refused:
        read_head(data.replace(b"HTTP/1.", b""))
    assert refused.value.status == 400


async def echo(request):
    return json_answer([request.method, request.path, request.body.decode()])


class Served:
    """A server, and clients that are closed with it."""

    def __init__(self, acceptor):
        self.port, self.writers = acceptor.port, []
        self.site = acceptor._factory.args[0]

    async def connect(self, *sent, **tls):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **tls)
        self.writers.append(writer)
        for data in sent:
            writer.write(data)
            await writer.drain()
        return reader, writer

    async def ask(self, *sent):
        """What a client gets until its connection ends."""
        reader, _ = await self.connect(*sent)
        return await reader.read()


@asynccontextmanager
async def serving(respond=echo, access=ALL, tls=None, **limits):
    acceptor = await serve(HERE, respond, access, tls, Limits(**limits))
    served = Served(acceptor)
    try:
        yield served
    finally:
        acceptor.close()
        for writer in served.writers:
            writer.transport.abort()
        while served.site.open:
            await asyncio.sleep(0)
    assert not served.site.waiting


def play(scenario):
    """Run a scenario; a hang fails."""
    return asyncio.run(asyncio.wait_for(scenario, HANG_S))


def talk(*sent, respond=echo):
    """Send each to a server that answers with what it heard; all that came back."""

    async def scenario():
        async with serving(respond) as served:
            return await served.ask(*sent)

    return play(scenario())


def test_requests_of_one_connection_are_answered_in_order():
    response = talk(GET[:10], GET[10:] + head("Host: localhost", "Content-Length: 2"), b"hi" + LAST)
    bodies = [json.loads(part.partition(b"\r\n\r\n")[2].partition(b"\n")[0])
              for part in response.split(b"HTTP/1.1 ")[1:]]  # fmt: skip
    assert bodies == [["GET", "/a?b=1", ""], ["POST", "/x", "hi"], ["GET", "/a?b=1", ""]]


def test_an_error_is_json_and_the_end():
    response = talk(head("Content-Length: x"), GET)
    assert response.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(response.partition(b"\r\n\r\n")[2]) == {
        "error": "Content-Length is no number: 'x'"
    }


def test_a_request_is_refused_by_its_head_before_its_body_is_there():
    for access in (ALL, Access("me:secret")):

        async def scenario(access=access):
            async with serving(access=access) as served:
                return await served.ask(head("Host: evil.example", "Content-Length: 1000"))

        status = b"401 Unauthorized" if access.login else b"403 Forbidden"
        assert play(scenario()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("size", "status"), [(16_384, b"200 OK"), (16_385, b"431 Request ")])
def test_a_head_has_at_most_16_kib(size, status):
    first = LAST[:-2] + b"X: "
    data = first + b"y" * (size - len(first) - 4) + b"\r\n\r\n"
    assert talk(data).startswith(b"HTTP/1.1 " + status)


def test_a_head_that_does_not_end_is_refused():
    assert talk(b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000).startswith(b"HTTP/1.1 431 ")


def test_a_connection_that_is_to_close_has_one_response():
    (fields, body) = talk(LAST + GET).split(b"\r\n\r\n")
    assert b"Connection: close" in fields.split(b"\r\n")
    assert json.loads(body) == ["GET", "/a?b=1", ""]


def test_an_answer_is_shown_in_no_frame_guessed_to_be_nothing_else_and_stored_nowhere():
    for request in (LAST, b"no request\r\n\r\n"):
        fields = talk(request).partition(b"\r\n\r\n")[0].decode().split("\r\n")
        assert "X-Content-Type-Options: nosniff" in fields
        assert "Cache-Control: no-store" in fields
        (policy,) = (field for field in fields if field.startswith("Content-Security-Policy: "))
        assert "frame-ancestors 'none'" in policy


def test_a_large_answer_arrives_whole_and_of_head_none_of_it():
    body = bytes(range(256)) * 9_000

    async def respond(request):
        return Answer(200, body)

    assert talk(LAST, respond=respond).partition(b"\r\n\r\n")[2] == body
    answered = talk(LAST.replace(b"GET", b"HEAD"), respond=respond)
    assert f"Content-Length: {len(body)}\r\n".encode() in answered
    assert answered.endswith(b"\r\n\r\n")


def test_an_address_that_is_taken_is_one_line():
    async def scenario():
        async with serving() as served:
            await serve(HERE._replace(port=served.port), echo, ALL)

    with pytest.raises(CoterieError, match=r"127\.0\.0\.1:\d+ cannot be listened on .* port 0$"):
        play(scenario())


# Hostile clients


class Work:
    """Answers that end when they are let go, or are cancelled."""

    def __init__(self):
        self.running, self.cancelled, self.free = 0, 0, asyncio.Event()

    async def __call__(self, request):
        self.running += 1
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return await echo(request)

    async def until(self, running):
        while self.running != running:
            await asyncio.sleep(0)


@pytest.mark.parametrize("behind", [b"", GET, b"x" * 200_000], ids=["nothing", "request", "junk"])
@pytest.mark.parametrize("how", ["close", "abort", "write_eof"])
def test_work_for_a_client_that_is_gone_is_cancelled(how, behind):
    async def scenario():
        work = Work()
        async with serving(work) as served:
            clients = [await served.connect(GET + behind) for _ in range(9)]
            await work.until(9)
            for _, writer in clients[1:]:
                getattr(writer.transport if how == "abort" else writer, how)()
            await work.until(1)  # the others go on
            assert (work.cancelled, len(served.site.open)) == (8, 1)
            work.free.set()
            assert b"200 OK" in await clients[0][0].readuntil(b"\r\n")

    play(scenario())


def test_a_client_that_sends_without_end_while_it_waits_is_let_go():
    async def scenario():
        work = Work()
        async with serving(work) as served:
            _, writer = await served.connect(GET)
            await work.until(1)
            writer.write(bytes(8 << 20))
            await work.until(0)
            assert work.cancelled == 1

    play(scenario())


@pytest.mark.parametrize(
    "sent", [b"", GET[:-1], head("Host: localhost", "Content-Length: 2") + b"h", GET]
)
def test_a_request_that_is_not_complete_in_time_is_the_end(sent):
    async def scenario():
        async with serving(idle_s=SHORT_S) as served:
            return await served.ask(sent)

    assert (b"200 OK" in play(scenario())) == (sent == GET)  # whose next request does not come


def test_an_answer_that_is_not_read_is_not_kept():
    async def respond(request):
        return Answer(200, bytes(64 << 20))

    async def scenario():
        async with serving(respond, idle_s=SHORT_S) as served:
            _, writer = await served.connect(GET)
            writer.transport.pause_reading()
            while not served.site.open:
                await asyncio.sleep(0)
            (connection,) = served.site.open
            while served.site.open:
                assert connection._transport.get_write_buffer_size() < 1 << 20
                await asyncio.sleep(0)

    play(scenario())


def test_requests_that_come_at_once_are_answered_in_turns_of_their_own():
    turn, answered_in = 0, []

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def respond(request):
        answered_in.append(turn)
        return await echo(request)

    async def scenario():
        counting = asyncio.ensure_future(count())
        async with serving(respond) as served:
            assert (await served.ask(GET * 99 + LAST)).count(b"200 OK") == 100
        counting.cancel()

    play(scenario())
    assert len(set(answered_in)) == 100


def test_work_has_no_deadline_of_a_client():
    async def scenario():
        work = Work()
        async with serving(work, idle_s=SHORT_S) as served:
            reader, _ = await served.connect(LAST)
            await work.until(1)
            asyncio.get_running_loop().call_later(2 * SHORT_S, work.free.set)
            assert b"200 OK" in await reader.read()

    play(scenario())


def test_a_client_takes_the_place_of_one_that_is_waited_for_but_not_of_one_that_waits():
    async def scenario():
        work = Work()
        async with serving(work, connections=3) as served:
            for _ in range(20):  # slow ones: each has room, the last three are there
                await served.connect(GET[:-1])
            reader, _ = await served.connect(LAST)
            await work.until(1)
            for _ in range(2):
                await served.connect(GET)
            await work.until(3)
            assert await served.ask(b"") == b""  # all three wait for their answers
            assert len(served.site.open) == 3
            work.free.set()
            assert b"200 OK" in await reader.read()

    play(scenario())


def test_a_tls_handshake_ends_after_a_time_and_makes_room_for_others(tmp_path):
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    own.private_key_pem.write_to_path(tmp_path / "key")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    context = server_context(tmp_path / "cert", tmp_path / "key")

    async def scenario(handshake_s):
        limits = {"connections": 2, "handshake_s": handshake_s}
        async with serving(tls=context, **limits) as served:
            half = [(await served.connect(b"\x16\x03\x01"))[0] for _ in range(4)]
            ended = half if handshake_s == SHORT_S else half[:2]  # two more than there is room for
            assert [await reader.read() for reader in ended] == [b""] * len(ended)
            reader, _ = await served.connect(LAST, ssl=trusting, server_hostname="localhost")
            assert b"200 OK" in await reader.read()

    for handshake_s in (SHORT_S, HANG_S):
        play(scenario(handshake_s))


def test_no_more_descriptors_are_a_rest_without_a_word(monkeypatch, capfd, caplog):
    """asyncio's own servers write a traceback for each of a hundred attempts, and again."""

    async def scenario():
        async with serving() as served:
            loop, calls = asyncio.get_running_loop(), []
            monkeypatch.setattr(loop, "call_later", lambda *call: calls.append(call))

            def exhausted(self):
                raise OSError(errno.EMFILE, "Too many open files")

            monkeypatch.setattr(socket.socket, "accept", exhausted)
            with socket.create_connection(("127.0.0.1", served.port)) as client:
                while not calls:
                    await asyncio.sleep(0)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert len(calls) == 1
                monkeypatch.undo()
                _, resume, *given = calls[0]
                resume(*given)
                client.sendall(LAST)
                client.setblocking(False)
                assert await loop.sock_recv(client, 12) == b"HTTP/1.1 200"

    play(scenario())
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])


def test_one_more_connection_takes_the_place_of_the_one_that_waits_longest():
    site, ended = HttpSite(None, Access(), Limits(connections=2)), []

    class Peer:
        def __init__(self, number):
            self.number = number

        def abort(self):
            ended.append(self.number)

    made = [Peer(number) for number in range(4)]
    assert [site.add(one) for one in made[:2]] == [True, True]
    assert not site.add(made[2])  # both are at work
    site.waiting[made[1]] = None
    assert site.add(made[3])
    assert ended == [1]
