"""``coterie serve --control`` and ``--metrics`` as a process, and its users and certificates."""

import http.client as http_client
import json
import signal
import urllib.error
import urllib.request

import pytest
import trustme

from support.clients.python_clients import TOPIC, Security, echo_kafka_python
from support.commandline import coterie
from support.patience import HANG_S
from support.server import asking, sockets
from support.server.serve_process import connect, serving


def addresses(server, *names):
    """Where each of these is: lines ``NAME at HOST:PORT`` on standard error."""
    found = {}
    while found.keys() != set(names):
        name, _, address = server.stderr.readline().rstrip("\n").partition(" at ")
        found[name] = address
    return found


def http(address, path, body=None, **fields):
    """Send a POST if there is a body, else a GET; return the status and the response."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(f"http://{address}{path}", data, fields)
        with urllib.request.urlopen(request, None, HANG_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_time_is_moved_and_numbers_are_told_over_http():
    with serving(
        "--listen", "127.0.0.1:0", "--topic", "t", "--clock", "virtual", "--control",
        "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--set", "group.initial.rebalance.delay.ms=0",
    ) as (server, lines):  # fmt: skip
        at = addresses(server, "control", "metrics")
        peer = connect(lines[0])
        assert sockets.ask(peer, "JoinGroup", 3, asking.joining("g"))["errorCode"] == 0
        assert json.loads(http(at["control"], "/snapshot/g")[1])["state"] == "CompletingRebalance"
        assert http(at["control"], "/advance", {"ms": 60_001}) == (200, '{"now_ms": 60001}\n')
        assert json.loads(http(at["control"], "/snapshot/g")[1])["members"] == []
        status, told = http(at["control"], "/advance", {"ms": -1})
        assert status == 400
        assert json.loads(told).keys() == {"error"}
        numbers = http(at["metrics"], "/metrics")[1]
        assert 'coterie_requests_total{api="JoinGroup"} 1\n' in numbers
        assert "coterie_connections 1\n" in numbers
        assert http(at["metrics"], "/")[0] == 404
        assert http(at["control"], "/advance", {"ms": 1}, Origin="http://evil.example")[0] == 403
        assert http(at["metrics"], "/metrics", Host="evil.example")[0] == 403


def test_an_automatic_clock_needs_no_control():
    with serving(
        "--listen", "127.0.0.1:0", "--topic", "t", "--clock", "auto",
        "--set", "group.initial.rebalance.delay.ms=30000",
    ) as (_, lines):  # fmt: skip
        peer = connect(lines[0])
        assert sockets.ask(peer, "JoinGroup", 3, asking.joining("g"))["generationId"] == 1


def test_a_group_is_waited_for_over_http():
    with serving(
        *("--listen", "127.0.0.1:0", "--topic", "t", "--clock", "virtual"),
        *("--control", "127.0.0.1:0", "--metrics", "127.0.0.1:0"),
    ) as (server, lines):
        at = addresses(server, "control", "metrics")
        peer = connect(lines[0])
        peer.send(asking.request("JoinGroup", 3, asking.joining("g")))
        status, answer = http(at["control"], "/wait", {"group_id": "g", "members": 1})
        assert (status, json.loads(answer)["state"]) == (200, "PreparingRebalance")
        condition = {"group_id": "g", "state": "Stable", "timeout_s": 0}
        status, answer = http(at["control"], "/wait", condition)
        assert status == 400
        assert "waits for joins until 3000; the clock is at 0" in json.loads(answer)["error"]
        numbers = http(at["metrics"], "/metrics")[1]  # which a wait takes nothing from
        assert 'coterie_requests_total{api="JoinGroup"} 1\n' in numbers


def test_users_and_certificates_are_those_of_the_files(tmp_path):
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    own.private_key_pem.write_to_path(files["key"])
    own.cert_chain_pems[0].write_to_path(files["cert"])
    users = tmp_path / "users.toml"
    users.write_text('[users.alice]\npassword = "alice-secret"\n')
    listen = ("serve", "--listen", "sasl_ssl://127.0.0.1:0", "--topic", TOPIC)
    tls = ("--tls-cert", files["cert"], "--tls-key", files["key"])
    users.chmod(0o644)
    refused = coterie(*listen, *tls, "--sasl-users", users)
    assert refused.returncode == 2
    assert "others may read it" in refused.stderr
    users.chmod(0o600)
    delay = ("--set", "group.initial.rebalance.delay.ms=0")
    arguments = map(str, (*listen[1:], *tls, "--sasl-users", users, *delay))
    with serving(*arguments) as (_, lines):
        security = Security("SASL_SSL", "SCRAM-SHA-256", files={"ca": files["ca"]})
        assert echo_kafka_python(lines[0].split()[2], security) == (b"key", b"value")


@pytest.mark.parametrize("where", ["0.0.0.0:0", "192.0.2.1:0", "example.com:80"])
def test_control_is_only_for_this_machine(where):
    told = coterie("serve", "--control", where)
    assert told.returncode == 2
    assert "loopback" in told.stderr


def test_an_open_connection_does_not_hold_up_the_end_nor_is_it_told():
    with serving(
        "--listen", "127.0.0.1:0", "--clock", "virtual", "--control", "127.0.0.1:0"
    ) as (server, _):  # fmt: skip
        kept = http_client.HTTPConnection(addresses(server, "control")["control"])
        kept.request("GET", "/requests")
        assert kept.getresponse().read() == b"[]\n"
        server.send_signal(signal.SIGTERM)
        assert server.communicate() == ("", "")
        assert server.returncode == 0
        kept.close()
