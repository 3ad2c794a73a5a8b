"""Broker logs as people have them: layouts, compressed files, and what is not understood."""

import gzip
import json
import re

import pytest
from cramjam import zstd

from support.commandline import coterie_ok, fails
from support.golden_data import GOLDEN
from support.insight.lives import life, member, written
from support.request_lines import line as logged

AT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVICTION = "[GroupCoordinator 0]: Member b-1 in group g has failed, removing it from the group"
LOGGER = "kafka.coordinator.group.GroupCoordinator"
STRIMZI = f"2026-01-01 00:00:09,500 INFO {EVICTION} ({LOGGER}) [executor-Heartbeat]\n"
UNKNOWN = (
    f"2026-01-01 00:00:09,600 INFO [GroupCoordinator 0]: Member b-1 has left in anger ({LOGGER})\n"
)
KUBECTL = "2020-02-02T02:02:02.2Z"
TRACE = "java.lang.Exception: x\n\tat kafka.coordinator.group.GroupCoordinator.f(G.scala:1)\n"
LAYOUTS = {
    "Apache": f"[2026-01-01 00:00:09,500] INFO {EVICTION} ({LOGGER})\n",
    "Strimzi": STRIMZI,
    "with a stack trace": TRACE + STRIMZI + TRACE,
    "JSON": json.dumps({"@timestamp": "2026-01-01T00:00:09.5Z", "message": EVICTION}) + "\n",
    "kubectl": f"2026-01-01T00:00:11.1Z {STRIMZI}",
    "docker compose": f"kafka-1  | {STRIMZI}",
    "journald": f"Jan 01 00:00:11 host kafka[1]: {STRIMZI}",
}


@pytest.fixture
def evicted(tmp_path):
    """A group of two members, one of which is gone after 10 s."""
    lives = [life(AT_MS, 1, member("a-1"), member("b-1", clientId="b"))]
    return written(tmp_path / "log", *lives, life(AT_MS + 10_000, 2, member("a-1")))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_server_log_in_any_layout_shows_who_was_evicted(layout, evicted, tmp_path):
    server = tmp_path / "server.log"
    server.write_text(LAYOUTS[layout])
    ran = coterie_ok("explain", evicted, "--server-log", server)
    assert "b (h) evicted [server log]" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.parametrize(("end", "packed"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_a_compressed_server_log_is_read(end, packed, evicted, tmp_path):
    server = tmp_path / f"server.log{end}"
    server.write_bytes(bytes(packed(STRIMZI.encode())))
    assert "evicted [server log]" in coterie_ok("explain", evicted, "--server-log", server).stdout
    server.write_bytes(bytes(packed(STRIMZI.encode()))[:-5])
    fails("explain", evicted, "--server-log", server, says=str(server))


def test_a_request_log_in_another_layout_shows_who_left(evicted, tmp_path):
    body = logged("LEAVE_GROUP", 2, {"groupId": "g", "memberId": "b-1"}, {"errorCode": 0}, 9_500)
    text = body.partition("DEBUG ")[2]
    requests = tmp_path / "requests.log"
    as_json = {"timestamp": "2026-01-01T00:00:09.500Z", "level": "DEBUG", "message": text}
    for line in (f"2026-01-01 00:00:09,500 DEBUG {text} [network-1]", json.dumps(as_json)):
        requests.write_text(f"{line}\n")
        ran = coterie_ok("explain", evicted, "--request-log", requests)
        assert "b (h) left [request log]" in ran.stdout


def test_lines_about_groups_that_are_not_understood_are_counted_with_an_example(evicted, tmp_path):
    server = tmp_path / "server.log"
    server.write_text(f"{STRIMZI}{UNKNOWN}{UNKNOWN}")
    ran = coterie_ok("explain", evicted, "--server-log", server)
    assert "evicted [server log]" in ran.stdout
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"coterie: {server}: 2 lines about groups are not understood, as line 2")
    assert "has left in anger" in line


@pytest.mark.parametrize("text", [f"00:00:09 {EVICTION}\n", "\nsome text\n" + TRACE])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("explain", "--server-log"),
        ("explain", "--request-log"),
        ("report", "--server-log"),
        ("audit", "--request-log"),
    ],
)
def test_a_log_without_a_line_that_is_understood_fails_with_an_example(
    command, option, text, evicted, tmp_path
):
    log = tmp_path / "some.log"
    log.write_text(text)
    first = next(filter(None, text.splitlines()))
    output = ("-o", tmp_path / "page.html") if command == "report" else ()
    says = (f"{log}: no line is understood, as line ", first)
    fails(command, evicted, option, log, *output, says=says)


def test_one_file_may_have_the_lines_of_both_logs(evicted, tmp_path):
    body = logged("LEAVE_GROUP", 2, {"groupId": "g", "memberId": "b-1"}, {"errorCode": 0}, 9_500)
    log = tmp_path / "kafka.log"
    log.write_text(f"{body}\n{STRIMZI}")
    assert "evicted [server log]" in coterie_ok("explain", evicted, "--server-log", log).stdout


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_log_in_another_encoding_is_read(evicted, tmp_path, encoding):
    """PowerShell redirects to UTF-16; a broker in a container without a locale writes Latin-1."""
    server = tmp_path / "server.log"
    server.write_text(f"{STRIMZI}2026-01-01 00:00:09,500 INFO Größe [x-0]\n", encoding)
    assert "evicted [server log]" in coterie_ok("explain", evicted, "--server-log", server).stdout


def test_an_empty_log_only_says_nothing(evicted, tmp_path):
    (tmp_path / "server.log").write_text("")
    ran = coterie_ok("explain", evicted, "--server-log", tmp_path / "server.log")
    assert ran.stderr.endswith("says nothing of any group; is it the log of this option?\n")


def test_an_imported_trace_does_not_depend_on_the_layout(tmp_path):
    """As Apache's layout, and as that of Strimzi after ``kubectl logs --timestamps``."""
    traces = []
    for name in ("apache", "strimzi"):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("kafka-request.log", "server.log"):
            text = gzip.decompress((GOLDEN / f"request-log/{file}.gz").read_bytes()).decode()
            if name == "strimzi":
                text = re.sub(
                    r"(?m)^\[([^]]+)\] (.*)$", r"2020-02-02T02:02:02.2Z \1 \2 [x-0]", text
                )
            (folder / file).write_text(text)
        files = folder / "kafka-request.log", "--server-log", folder / "server.log"
        coterie_ok("trace", "import", *files, "--out", folder / "out")
        traces.append([path.read_bytes() for path in sorted((folder / "out").iterdir())])
    assert traces[0] == traces[1]
    assert len(traces[0]) == 2
