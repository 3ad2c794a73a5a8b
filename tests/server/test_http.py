"""The HTTP beside a server: requests are read, or refused with one JSON error."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.server.admin.http import HttpRequest, Refusal, json_answer, read_head, serve

GET = b"GET /a?b=1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n"


def head(*fields, first="POST /x HTTP/1.1"):
    return "\r\n".join((first, *fields, "", "")).encode("latin-1")


def test_a_head_is_read():
    assert read_head(GET) == HttpRequest("GET", "/a?b=1", "localhost:1", None, 0, True)
    given = head("host: h", "CONTENT-LENGTH: 12", "Origin: http://a", "Connection: close")
    assert read_head(given) == HttpRequest("POST", "/x", "h", "http://a", 12, False)


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
        (head(*["A: b"] * 200), 400),
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


def talk(*sent):
    """Send each to a server that answers with what it heard; all that came back."""

    async def respond(request):
        return json_answer([request.method, request.path, request.body.decode()])

    async def run():
        server = await serve("127.0.0.1", 0, respond)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for data in sent:
                writer.write(data)
                await writer.drain()
            writer.write_eof()
            response = await reader.read()
            writer.close()
        return response

    return asyncio.run(run())


def test_requests_of_one_connection_are_answered_in_order():
    response = talk(GET[:10], GET[10:] + head("Content-Length: 2"), b"hi" + GET)
    bodies = [json.loads(part.partition(b"\r\n\r\n")[2].partition(b"\n")[0])
              for part in response.split(b"HTTP/1.1 ")[1:]]  # fmt: skip
    assert bodies == [["GET", "/a?b=1", ""], ["POST", "/x", "hi"], ["GET", "/a?b=1", ""]]


def test_an_error_is_json_and_the_end():
    response = talk(head("Content-Length: x"), GET)
    assert response.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(response.partition(b"\r\n\r\n")[2]) == {
        "error": "Content-Length is no number: 'x'"
    }


@pytest.mark.parametrize(("size", "status"), [(16_384, b"200 OK"), (16_385, b"431 Request ")])
def test_a_head_has_at_most_16_kib(size, status):
    first = b"GET / HTTP/1.1\r\nX: "
    data = first + b"y" * (size - len(first)) + b"\r\n\r\n"
    assert talk(data).startswith(b"HTTP/1.1 " + status)


def test_a_connection_that_is_to_close_has_one_response():
    closing = head("Connection: close", first="GET /a HTTP/1.1")
    (fields, body) = talk(closing + GET).split(b"\r\n\r\n")
    assert b"Connection: close" in fields.split(b"\r\n")
    assert json.loads(body) == ["GET", "/a", ""]


def test_a_head_that_does_not_end_is_refused():
    assert talk(b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000).startswith(b"HTTP/1.1 431 ")


def test_an_address_that_is_taken_is_one_line():
    async def run():
        async with await serve("127.0.0.1", 0, None) as server:
            await serve(*server.sockets[0].getsockname(), None)

    with pytest.raises(CoterieError, match=r"127\.0\.0\.1:\d+ cannot be listened on .* port 0$"):
        asyncio.run(run())
