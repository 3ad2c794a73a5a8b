"""What a watcher answers over HTTP while it steps, while its log is away, and while it ends."""

import asyncio
import json
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from coterie.base import malloc_trim
from coterie.errors import CoterieError
from coterie.live.watched_files import ANSWER, PAGE, PYTHON, Reading, ReadRequest, Scope
from coterie.live.web import Web
from coterie.log.folders import Listing, find_segments
from coterie.server import http
from coterie.server.access import Access
from coterie.server.http_messages import HttpRequest, Refusal
from coterie.server.options import Place
from support.growing_log import GrowingLog
from support.insight import lives
from support.insight.compacted_logs import FIRST_MS, Written
from support.insight.lives import life, member, written
from support.log_writer import batch, commit
from support.patience import HANG_S
from support.report.report_logs import HOSTILE
from support.watch.watched import watcher_of


@contextmanager
def served(watcher, now_ms=0, keep_ms=1 << 50, read=None):
    """The watcher's web, with a thread for its steps."""
    with ThreadPoolExecutor(1) as steps:
        yield Web(watcher, steps, keep_ms, lambda: now_ms, 7, read)


def requested(path):
    return HttpRequest("GET", path, {})


def get(web, path):
    """Return the status and the text of the answer."""
    try:
        answer = asyncio.run(web.respond(requested(path)))
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


def test_healthz_is_503_before_the_first_step_and_has_the_age_of_the_newest_record(log):
    watcher = watcher_of(log)
    with served(watcher, now_ms=FIRST_MS + 5_000) as web:
        status, text = get(web, "/healthz")
        health = json.loads(text)
        assert (status, health["ok"], health["newest_age_ms"]) == (503, False, None)
        watcher.step()
        status, text = get(web, "/healthz")
        health = json.loads(text)
        assert (status, health["ok"], health["newest_age_ms"]) == (200, True, 5_000)
    with served(watcher, now_ms=FIRST_MS - 1) as web:  # the clocks of two machines differ
        assert json.loads(get(web, "/healthz")[1])["newest_age_ms"] == 0


def test_a_log_without_records_has_no_age(tmp_path):
    watcher = watcher_of(GrowingLog(tmp_path / "log"))  # its segment is empty
    watcher.step()
    with served(watcher, now_ms=FIRST_MS) as web:
        status, text = get(web, "/healthz")
    assert (status, json.loads(text)["newest_ms"], json.loads(text)["newest_age_ms"]) == (
        *(200, -1, None),
    )


def test_rows_are_of_all_groups_or_of_the_one_that_is_named(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    for group in (b"g", b"h"):
        written.apply("commit", ((group, b"t", 0), 1))
    log.put(written.left)
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:

        def rows(path):
            return {(row["group_id"], row["topic"]) for row in json.loads(get(web, path)[1])}

        groups, partitions = {("g", None), ("h", None)}, {("g", "t"), ("h", "t")}
        assert rows("/api/groups") == groups
        assert rows("/api/metrics") == groups | partitions
        assert rows("/api/metrics?group=h") == {("h", None), ("h", "t")}
        assert rows("/api/groups?group=h") == {("h", None)}


@pytest.mark.parametrize(("path", "status"), [("/metrics", 200), ("/api/explain?group=x", 404)])
def test_freed_memory_is_given_back_after_each_answer_from_the_state(
    log, monkeypatch, path, status
):
    trims = []
    monkeypatch.setattr(malloc_trim, "trim", lambda: trims.append(1))
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        assert get(web, path)[0] == status
    assert trims == [1]


def test_a_page_loads_itself_again(log):
    pytest.importorskip("jinja2")
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        page = asyncio.run(web.respond(requested("/")))
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert page.fields == ("Refresh: 7",)


def test_a_page_is_named_after_its_group_and_drawn_again_only_after_new_records(log):
    pytest.importorskip("jinja2")
    watcher = watcher_of(log)
    watcher.step()
    drawn = []

    async def read(request):
        drawn.append(request.group)
        return await Reading()(request)

    with served(watcher, read=read) as web:
        assert "<title>Consumer groups" in get(web, "/")[1]
        assert "<title>g" in get(web, "/groups/g")[1]
        assert get(web, "/")[1] == get(web, "/")[1]
        assert drawn == [None, "g"]
        watcher.version += 1  # a step with new records
        get(web, "/")
        assert drawn == [None, "g", None]


def test_the_four_pages_that_were_asked_for_last_are_not_drawn_again(log):
    watcher = watcher_of(log)
    watcher.step()
    drawn = []

    async def read(request):
        assert request.what == PAGE
        drawn.append(request.group)
        return f"page of {request.group}".encode()

    watcher.listing_of = lambda group: watcher.listing
    with served(watcher, read=read) as web:
        for group in "abcdab":  # a and b are now later than c and d
            assert get(web, f"/groups/{group}") == (200, f"page of {group}")
        assert drawn == [*"abcd"]
        get(web, "/groups/e")  # takes the place of c
        for group in "dabe":
            get(web, f"/groups/{group}")
        assert drawn == [*"abcde"]
        get(web, "/groups/c")
        assert drawn == [*"abcdec"]


def test_a_path_without_a_group_and_an_unknown_one_name_the_paths_that_there_are(log):
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        for path in ("/groups/", "/groups", "/api/", "/api/undo", "/growth", "/metrics/"):
            status, text = get(web, path)
            assert (status, "there are /metrics, /, /groups/GROUP" in text) == (404, True)
        for path in ("/api/growth?group=other", "/groups/other"):
            assert get(web, path) == (404, "there is no record of a group 'other'")


def test_a_group_with_an_empty_id_is_a_group(log):
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as web:
        assert json.loads(get(web, "/api/groups?group=")[1]) == []
        assert get(web, "/api/growth?group=") == (404, "there is no record of a group ''")
        assert len(json.loads(get(web, "/api/groups")[1])) == 1  # in three partitions


def test_a_record_of_the_time_0_has_an_age(tmp_path):
    log = GrowingLog(tmp_path / "log")
    log.append(batch(0, [commit(0)]))
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher, now_ms=1_234) as web:
        assert json.loads(get(web, "/healthz")[1])["newest_age_ms"] == 1_234


@pytest.mark.parametrize(
    ("keep_ms", "since_ms"), [(5_000, FIRST_MS - 5_000), (FIRST_MS, None), (FIRST_MS + 1, None)]
)
def test_questions_cover_a_time_up_to_the_newest_record(log, keep_ms, since_ms):
    scopes = []

    async def read(request):
        scopes.append(request.scope)
        return b"[]"

    watcher = watcher_of(log)
    with served(watcher, keep_ms=keep_ms, read=read) as web:
        get(web, "/api/growth")
        watcher.step()
        get(web, "/api/growth")
    assert [(scope.since_ms, scope.newest_ms) for scope in scopes] == [
        (None, 0),
        (since_ms, FIRST_MS),
    ]


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


NOTHING = Scope(Listing((), ()), None, 0, 0, {}, {})
ENDLESS = "import sys; sys.stdin.buffer.read(); open(sys.argv[1], 'rb').read()"  # of a pipe


def answer(command, request=None):
    """What a process answers."""
    return asyncio.run(Reading(command)(request or ReadRequest(PAGE, None, NOTHING)))


def test_a_reading_that_is_cancelled_ends_its_process(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = Reading([sys.executable, "-c", ENDLESS, str(pipe)])

    async def scenario():
        reading = asyncio.ensure_future(read(ReadRequest(PAGE, None, NOTHING)))
        opened = await asyncio.to_thread(pipe.open, "wb", buffering=0)  # once it reads the pipe
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        with opened, pytest.raises(BrokenPipeError):
            opened.write(b"x")

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/api/growth", "/"])
def test_what_clients_that_are_gone_asked_for_is_not_read(log, path):
    watcher = watcher_of(log)
    watcher.step()
    reads = []

    async def scenario():
        begun, ended = asyncio.Event(), asyncio.Event()

        async def read(request):
            reads.append(request)
            if len(reads) == 1:
                begun.set()
                await ended.wait()
            return b"[]"

        with served(watcher, read=read) as web:
            dropped = [asyncio.ensure_future(web.respond(requested(path))) for _ in range(60)]
            await begun.wait()
            last = asyncio.ensure_future(web.respond(requested(path)))
            for each in dropped:
                each.cancel()
            assert (await last).body == b"[]"

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
    assert len(reads) == 2


def test_a_process_that_reads_and_is_killed_is_one_line():
    ended = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(CoterieError, match=r"that reads the log ended with status -9$"):
        answer(ended)


def test_a_process_that_reads_has_a_session_of_its_own_so_that_ctrl_c_is_for_the_watcher():
    is_leader = f"{ANSWER!r} + str(os.getsid(0) == os.getpid()).encode()"
    program = f"import os, sys; sys.stdin.buffer.read(); sys.stdout.buffer.write({is_leader})"
    assert answer([sys.executable, "-c", program]) == b"True"


def test_a_process_that_does_not_start_is_one_line(tmp_path):
    with pytest.raises(CoterieError, match=r"that reads the log does not start: .*no-python"):
        answer([str(tmp_path / "no-python")])


def test_what_modules_print_at_their_import_is_no_part_of_an_answer(log):
    def rows(prelude):
        command = [*PYTHON[:2], prelude + PYTHON[2]]
        scope = Scope(find_segments([log.home]), None, 0, 0, {}, {})
        return answer(command, ReadRequest("growth", None, scope))

    assert rows("print('noise', flush=True); ") == rows("")


def test_a_page_that_cannot_be_drawn_says_why(log):
    listing = find_segments([log.home])
    log.active.unlink()
    with pytest.raises(CoterieError, match=str(log.active)):
        answer(PYTHON, ReadRequest("growth", None, Scope(listing, None, 0, 0, {}, {})))


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
    server = await http.serve(Place("HTTP", "127.0.0.1", 0), web.respond, Access())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
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


def test_hostile_names_are_data_of_pages_and_answers_and_drive_nothing(tmp_path):
    names = [*HOSTILE, "a\x85\x9b2J\u2066\u200b\U000e0041", "long" * 8_000]
    records = []
    for name in names:
        of_name = {"clientId": name, "clientHost": name, "topics": [name], "held": {name: [0]}}
        group, topic = name.encode(), name.encode()
        records.append(life(1_000, 1, member(name, **of_name), group=group))
        records += [lives.commit(2_000 + at, {0: 9 - at}, group, topic) for at in range(3)]
    written(tmp_path, *records)
    watcher = watcher_of(SimpleNamespace(home=tmp_path))
    watcher.step()
    paths = [f"/api/{name}" for name in ("groups", "metrics", "audit", "explain", "growth")]
    paths += ["/", "/healthz", f"/groups/{quote(names[-2])}"]
    with served(watcher, now_ms=10_000) as web:
        answers = {path: get(web, path) for path in paths}
        answers["gone"] = get(web, f"/groups/{quote(names[-2])}x")
    assert [path for path, (status, _) in answers.items() if status != 200] == ["gone"]
    for path, (_, text) in answers.items():
        shown = text.partition("<script>")[0] if path[:2] in ("/", "/g") else text
        assert all(line.isprintable() for line in shown.split("\n")), path
    for path in paths[:2]:
        assert {row["group_id"] for row in json.loads(answers[path][1])} == set(names)
