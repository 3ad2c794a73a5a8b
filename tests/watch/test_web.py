"""What a watcher answers over HTTP while it steps, while its log is away, and while it ends."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from coterie.insight import asking
from coterie.server.admin import http
from coterie.server.admin.http import HttpRequest, Refusal
from coterie.watch import web as web_module
from coterie.watch.web import Access, Web
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written
from support.patience import HANG_S
from support.watch.watched import watcher_of


@contextmanager
def served(watcher):
    """The watcher's web, with a thread for its steps."""
    with ThreadPoolExecutor(1) as steps:
        web = Web(watcher, steps, Access(), 1 << 50, lambda: 0)
        yield web
        web.pages.shutdown()


def get(web, path):
    """Return the status and the text of the answer."""
    try:
        answer = asyncio.run(web.respond(HttpRequest("GET", path, "localhost", None, 0, False)))
    except Refusal as refusal:
        return refusal.status, str(refusal)
    return answer.status, answer.body.decode()


@pytest.fixture
def log(tmp_path):
    """Three partitions with one commit each."""
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("commit", ((b"g", b"t", 0), 1))
    log.put(written.left)
    for number in (1, 2):
        shutil.copytree(log.folder, log.home / f"__consumer_offsets-{number}")
    return log


def test_healthz_answers_while_a_step_runs(log):
    began, goes_on = threading.Event(), threading.Event()
    watcher = watcher_of(log)
    watcher.step()
    list_log = watcher.list_log

    def waiting_list():
        began.set()
        assert goes_on.wait(HANG_S)
        return list_log()

    watcher.list_log = waiting_list
    with served(watcher) as web:
        step = web.steps.submit(watcher.step)
        try:
            assert began.wait(HANG_S)
            status, text = get(web, "/healthz")
            assert (status, '"steps": 1' in text) == (200, True)
            assert not step.done()
        finally:
            goes_on.set()
        step.result(HANG_S)
        assert '"steps": 2' in get(web, "/healthz")[1]


@pytest.mark.parametrize("path", ["/groups/g", "/groups/unknown", "/", "/api/growth"])
def test_what_is_read_from_the_files_answers_503_while_the_log_is_away(path, log, tmp_path):
    if not path.startswith("/api"):
        pytest.importorskip("jinja2")
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        before = get(web, path)
        log.home.rename(tmp_path / "away")
        watcher.step()
        status, text = get(web, path)
        assert (status, str(log.home) in text) == (503, True)
        assert list(watcher.health().failures) == ["log"]
        assert get(web, "/metrics")[0] == 200
        (tmp_path / "away").rename(log.home)
        watcher.step()
        assert get(web, path) == before


@pytest.mark.parametrize("path", ["/", "/api/growth"])
def test_the_end_of_the_watcher_ends_a_reading_after_the_partition_at_hand(path, log, monkeypatch):
    watcher = watcher_of(log)
    watcher.step()
    read = []

    def ending(name, real):
        def work(view, *arguments, **options):
            read.append(view.number)
            watcher.stopping = True
            return real(view, *arguments, **options)

        monkeypatch.setattr(name, work)

    ending("coterie.watch.web.look", web_module.look)
    ending("coterie.insight.asking.partition_answer", asking.partition_answer)
    with served(watcher) as web:
        assert get(web, path) == (503, "coterie watch ends")
    assert read == [0]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?grp=g", "unknown parameter 'grp'; there is only group"),
        ("?group=g&since=1", "unknown parameter 'since'"),
        ("?group=g&group=h", "group is given more than once"),
    ],
)
def test_unknown_parameters_of_a_question_are_named(query, says, log):
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        for name in ("groups", "growth"):
            status, text = get(web, f"/api/{name}{query}")
            assert (status, says in text) == (400, True)


async def raw(web, request):
    """Send bytes to a server of the watcher; all that it answers."""
    server = await http.serve("127.0.0.1", 0, web.respond)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(request)
    answered = await asyncio.wait_for(reader.read(), HANG_S)
    writer.close()
    server.close()
    return answered


def test_head_is_answered_as_get_without_the_body(log):
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        for path in ("/metrics", "/api/groups", "/healthz", "/nothing"):
            request = f" {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            got, head = (asyncio.run(raw(web, method + request)) for method in (b"GET", b"HEAD"))
            assert head == got[: got.index(b"\r\n\r\n") + 4]


def test_another_method_is_told_which_there_are(log):
    with served(watcher_of(log)) as web:
        request = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        head = asyncio.run(raw(web, request)).partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"HTTP/1.1 405 Method Not Allowed"
    assert b"Allow: GET, HEAD" in head


@pytest.mark.parametrize(
    ("rest", "is_damage"),
    [
        (b"no batch, but a line of text\n", True),
        (bytes(8) + b"\0\0\0\5" + bytes(20), True),  # too short for a batch
        (bytes(8) + b"\0\1\0\0" + bytes(4) + b"\2" + bytes(20), False),  # the rest is to come
        (bytes(300), False),  # preallocated
        (b"short", False),
    ],
)
def test_bytes_that_are_no_batch_make_the_health_fail_until_the_next_segment(log, rest, is_damage):
    with log.active.open("ab") as file:
        end = file.tell()
        file.write(rest)
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        status, text = get(web, "/healthz")
        assert status == (503 if is_damage else 200)
        assert (f"{log.active}: byte {end}: {len(rest)} bytes that are no batch" in text) == (
            is_damage
        )
        assert 'consumergroup="g"' in get(web, "/metrics")[1]  # what was read is shown
        log.roll(1)
        watcher.step()
        assert get(web, "/healthz")[0] == 200
