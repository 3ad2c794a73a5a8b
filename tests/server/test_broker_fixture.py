"""The fixture ``broker``: a server for each test, told by its marker; what a failure shows."""

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
    told.stdout.fnmatch_lines(["*broker timeline*", "*from_='Empty'*JOIN*", "*SESSION_TIMEOUT*"])
    (file,) = (pytester.path / "traces").iterdir()
    assert "join_group" in file.read_text(encoding="utf-8")
