"""The fixture ``broker``: a server for each test, by its marker; the report of a failure."""

import pytest

from support.server import sockets

pytest_plugins = ["pytester"]

FAILING = """
    import pytest
    from coterie import wire

    @pytest.mark.broker(clock="virtual", config={"group.initial.rebalance.delay.ms": 0}, seed=1)
    def test_it(broker):
        import socket
        host, port = broker.bootstrap_servers.split(":")
        body = {"groupId": "g", "sessionTimeoutMs": 6000, "rebalanceTimeoutMs": 60000,
                "memberId": "", "protocolType": "consumer",
                "protocols": [{"name": "range", "metadata": b""}]}
        frame = wire.encode_request(11, 3, body)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            connection.recv(4)
        broker.advance(6000)
        assert False
"""


def test_it_runs_while_a_test_does(broker):
    assert sockets.ask(sockets.connect(broker), "ListGroups", 0, {})["errorCode"] == 0


@pytest.mark.broker(topics={"orders": 4}, clock="virtual")
def test_its_marker_says_what_it_is(broker):
    told = sockets.ask(sockets.connect(broker), "Metadata", 9, {"topics": [{"name": "orders"}]})
    assert len(told["topics"][0]["partitions"]) == 4
    broker.advance(5)
    assert broker.now_ms == 5


def test_a_failure_shows_what_happened_and_the_trace_lies_where_it_is_asked_for(pytester):
    pytester.makepyfile(FAILING)
    told = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--coterie-trace=traces")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(
        [
            "*broker timeline*",
            "group g",
            "  0:00.000  Empty -> PreparingRebalance: join of -????",
            "  0:06.000  * -> PreparingRebalance: session timeout of -????",
            "group 'g' waits for nothing; the clock is at 6000",
        ]
    )
    timeline = told.outlines[told.outlines.index("group g") :][:8]
    assert timeline[-1].startswith("group 'g' waits")
    assert not [line for line in timeline if "=" in line or "b'" in line or len(line) > 80]
    (file,) = (pytester.path / "traces").iterdir()
    assert "join_group" in file.read_text(encoding="utf-8")


WAITING = """
    import socket, pytest
    from coterie import wire

    @pytest.mark.broker(clock="virtual")
    def test_it(broker):
        host, port = broker.bootstrap_servers.split(":")
        body = {"groupId": "g", "sessionTimeoutMs": 6000, "rebalanceTimeoutMs": 60000,
                "memberId": "", "protocolType": "consumer",
                "protocols": [{"name": "range", "metadata": b""}]}
        frame = wire.encode_request(11, 3, body)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            broker.wait_for("g", members=1)
            assert False
"""


def test_a_failure_shows_what_the_group_is_waiting_for(pytester):
    pytester.makepyfile(WAITING)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*group 'g' waits for joins until 3000; the clock is at 0*"])


FRAMES = """
    import pytest

    def test_wait(broker):
        broker.wait_for("g", state="Stable", timeout_s=0)

    def test_argument(coordinator):
        coordinator.heartbeat("g", "x", "m")

    def test_callback():
        from coterie import GroupCoordinator

        def fail(event):
            assert event is None
        GroupCoordinator(on_event=fail).offset_commit("g", {("t", 0): 5})

    def test_fault_of_the_library(coordinator):
        coordinator._ask = None
        coordinator.heartbeat("g", 1, "m")
"""


def test_a_report_shows_the_frames_of_the_library_only_for_its_own_faults(pytester):
    pytester.makepyfile(test_it=FRAMES)
    inside = ("*pycore/coterie/*", "*concurrent/futures*", "*.pyx:*")

    def run(test, *args):
        ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"test_it.py::{test}", *args)
        ran.assert_outcomes(failed=1)
        return ran.stdout

    for test, line in {
        "test_wait": "E *group 'g' is Dead with 0 members, not Stable*",
        "test_argument": "E *generation_id must be an integer, not 'x'",
        "test_callback": "E *assert *Append(* is None",
    }.items():
        shown = run(test)
        shown.fnmatch_lines([line])
        for frame in inside:
            shown.no_fnmatch_line(frame)
    run("test_argument", "--full-trace").fnmatch_lines([inside[0]])
    run("test_fault_of_the_library").fnmatch_lines([inside[0], "E *TypeError*"])


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("broker(5)", "@pytest.mark.broker takes options by name, as config={...}, not 5"),
        ("broker({'a': 1})", "takes options by name, as config={...}, not {'a': 1}"),
        ("broker(colour=5)", "@pytest.mark.broker has no option colour; they are config, brokers,"),
        ("broker(topic={})", "@pytest.mark.broker has no option topic; did you mean 'topics'?"),
        (
            "coordinator({})",
            "coordinator takes options by name, as config={...}, not {}",
        ),
        (
            "coordinator(topics=1)",
            "coordinator has no option topics; they are config,",
        ),
    ],
)
def test_a_marker_that_is_not_understood_is_one_line(pytester, marker, message):
    fixture = marker.partition("(")[0]
    code = f"import pytest\n\n@pytest.mark.{marker}\ndef test_it({fixture}):\n    pass\n"
    pytester.makepyfile(code)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q")
    ran.assert_outcomes(errors=1)
    ran.stdout.no_fnmatch_line("*Traceback*")
    assert len([line for line in ran.outlines if line.startswith("@pytest.mark")]) == 1
    assert any(message in line for line in ran.outlines)
