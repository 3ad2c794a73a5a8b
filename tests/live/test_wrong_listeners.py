"""Each wrong host, port, protocol, certificate and name is one line that says which it is.

The listeners are real; the time for a connection is set low where one never answers.
"""

import contextlib
import http.server
import itertools
import socket
import ssl
import threading

import pytest

pytest.importorskip("aiokafka")

from coterie.live import cluster, connections
from coterie.live.client_config import DEFAULTS
from coterie.server import Broker
from support.cluster.secure_listeners import USERS, jaas, tls_of, write_certificates
from support.commandline import coterie, coterie_forks, coterie_process, fails

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
QUICK = "socket.connection.setup.timeout.ms=400\nretry.backoff.ms=1\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An authority, another one, and certificates of a server for 127.0.0.1 and for other names."""
    folder = tmp_path_factory.mktemp("certificates")
    return write_certificates(folder, here=["127.0.0.1"], elsewhere=["kafka-1.example", "10.0.0.7"])


@pytest.fixture
def listeners(files):
    """A listener of each protocol, by its name; clients are processes: it prints lines, too."""
    listen = [f"{protocol.lower()}://127.0.0.1:0" for protocol in PROTOCOLS]
    settings = {"offsets.topic.num.partitions": 1}
    options = {"listen": listen, "sasl_users": USERS, "tls": tls_of(files, "here")}
    with Broker(settings, topics={"orders": 1}, **options) as broker:
        yield dict(zip(PROTOCOLS, broker.addresses, strict=True))


@pytest.fixture
def command(files, tmp_path):
    """A fetch by properties of the client, which has them in a file of its own."""

    def made(address, protocol, *more, ca="ca.pem"):
        mechanism = (
            () if any("sasl.mechanism" in line for line in more) else ["sasl.mechanism=PLAIN"]
        )
        lines = [f"security.protocol={protocol}", *mechanism, f"sasl.jaas.config={jaas()}", *more]
        file = tmp_path / f"{protocol}.properties"
        file.write_text("\n".join([*lines, f"ssl.truststore.location={files / ca}", ""]))
        options = ("--topic", "orders", "--out", tmp_path / "copy", "--command-config", file)
        return ("fetch", "--bootstrap-server", address, *options)

    return made


@pytest.fixture
def reach(command):
    """Connect by properties of the client; the one line that comes."""

    def run(address, protocol, *more, run=coterie, ca="ca.pem"):
        result = fails(*command(address, protocol, *more, ca=ca), run=run, says=address)
        return result.stderr.split(f"{address}: ", 1)[1].rstrip("\n")

    return run


def test_another_protocol_is_named_with_the_right_one(listeners, command):
    pairs = [pair for pair in itertools.product(PROTOCOLS, repeat=2) if len({*pair}) == 2]
    commands = [command(listeners[has], given) for has, given in pairs]
    ended = coterie_forks(commands, "import coterie.cli.fetch, coterie.live.connections, aiokafka")
    for (has, given), (status, line) in zip(pairs, ended, strict=True):
        says = f"coterie: {listeners[has]}: the listener has security.protocol {has}, not {given};"
        assert line.startswith(
            f"{says} set security.protocol={has} in the file of --command-config"
        )
        assert (status, line.count("\n")) == (1, 1)
        tells_login = has.startswith("SASL") and not given.startswith("SASL")
        assert ("sasl.mechanism=" in line) == tells_login


def test_another_mechanism_is_named_with_those_of_the_listener(listeners, reach):
    address, token = (
        listeners["SASL_PLAINTEXT"],
        "sasl.oauthbearer.token.endpoint.url=file:///etc/hostname",
    )
    line = reach(
        address, "SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", token, run=coterie_process
    )
    assert line.startswith("the listener has no sasl.mechanism OAUTHBEARER; set sasl.mechanism=")
    assert "SCRAM-SHA-256" in line


def test_an_unknown_authority_is_named(listeners, reach):
    line = reach(listeners["SSL"], "SSL", ca="other-ca.pem", run=coterie_process)
    assert line.startswith("TLS: the broker's certificate is not trusted (")
    assert line.endswith("ssl.truststore.location names the authority that signed it")


def test_a_certificate_of_other_hosts_is_named_with_them(files, reach):
    with Broker(topics={}, listen=["ssl://127.0.0.1:0"], tls=tls_of(files, "elsewhere")) as broker:
        line = reach(broker.addresses[0], "SSL", run=coterie_process)
    says = "TLS: the broker's certificate is for kafka-1.example, 10.0.0.7, not for 127.0.0.1; "
    assert line.startswith(says + "use such a name, or set ssl.endpoint.identification.algorithm=")


def test_a_listener_that_requires_a_certificate_of_the_client_says_so(files, reach):
    tls = tls_of(files, "here", client_ca=files / "ca.pem")
    with Broker(topics={}, listen=["ssl://127.0.0.1:0"], tls=tls) as broker:
        without = reach(broker.addresses[0], "SSL", QUICK, run=coterie_process)
        assert without.endswith("it requires a certificate: ssl.keystore.location names it")
        with_tls = reach(broker.addresses[0], "PLAINTEXT", run=coterie_process)
        assert with_tls.startswith("the listener has TLS; set security.protocol=SSL or SASL_SSL")


@contextlib.contextmanager
def serving(serve, tls=None):
    """A TCP server; ``serve`` gets each connection. Its address."""
    server, threads = socket.create_server(("127.0.0.1", 0)), []

    def one(connection):
        with contextlib.suppress(OSError), connection:
            if tls is None:
                serve(connection)
            else:
                with tls.wrap_socket(connection, server_side=True) as over_tls:
                    serve(over_tls)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for thread in (accepting, *threads):
            thread.join()


def silent(connection):
    while connection.recv(4096):
        pass


def banner(connection):
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    silent(connection)


def server_tls(files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "here.pem", files / "here-key.pem")
    return context


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_port_that_never_answers_is_named_in_the_time_for_a_connection(reach, protocol):
    with serving(silent) as address:
        line = reach(address, protocol, QUICK)
    assert line == "accepts the connection, and does not answer; is it a port of Kafka?"


def test_a_port_of_tls_that_never_answers_is_known_as_such(files, reach):
    with serving(silent, server_tls(files)) as address:
        assert reach(address, "SSL", QUICK).startswith("accepts the connection, and does not")
        assert reach(address, "PLAINTEXT", QUICK).startswith("the listener has TLS; set")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_server_is_named_by_what_it_sends(reach, protocol):
    with serving(banner) as address:
        line = reach(address, protocol, QUICK)
    assert line.startswith("no broker of Kafka answers (it sends b'SSH-2.0-OpenSSH")


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("has_tls", [False, True])
def test_an_http_server_is_named(files, reach, protocol, has_tls):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.handle_error = lambda *args: None
    if has_tls:
        server.socket = server_tls(files).wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        line = reach(f"127.0.0.1:{server.server_port}", protocol, QUICK)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert line == "an HTTP server answers, and no broker of Kafka; is the port right?"


@contextlib.contextmanager
def unaccepting():
    """An address that takes no connection, and refuses none: its backlog is full."""
    with socket.socket() as server, contextlib.ExitStack() as clients:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
def test_an_address_where_nothing_answers_is_named_in_the_time_for_a_connection(reach, protocol):
    with unaccepting() as address:
        line = reach(address, protocol, QUICK)
    assert line.startswith("no connection in 0.2 s: nothing answers at this address; is the host")


def test_a_closed_port_is_named_after_half_of_the_time_for_a_connection(reach):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert reach(address, "PLAINTEXT", QUICK) == "no connection (Connection refused)"


def test_a_name_is_given_up_in_time_although_its_look_up_goes_on(reach, monkeypatch):
    answers, look_up = threading.Event(), socket.getaddrinfo

    def slow(*args, **options):
        answers.wait()
        return look_up("127.0.0.1", 1)

    monkeypatch.setattr(connections.socket, "getaddrinfo", slow)
    try:
        line = reach("broker.example:9092", "PLAINTEXT", QUICK)
    finally:
        answers.set()
    assert line == "no connection: the host is not found in 0.2 s; is its name right?"


def test_an_address_that_the_cluster_advertises_and_nobody_reaches_is_named(tmp_path):
    advertised = "localhost:1"  # as of a broker in a container
    settings = {"advertised.listeners": f"PLAINTEXT://{advertised}"}
    with Broker(settings, topics={"orders": 1}, listen=["127.0.0.1:0"]) as broker:
        address = broker.addresses[0]
        file = tmp_path / "client.properties"
        file.write_text(QUICK)
        options = ("--topic", "orders", "--out", tmp_path / "copy", "--command-config", file)
        says = (
            f"broker 1, {advertised}: no connection (Connection refused); {address} advertises "
            "this address: set advertised.listeners of the broker",
        )
        fails("fetch", "--bootstrap-server", address, *options, says=says, run=coterie_process)


def test_all_attempts_and_looks_end_within_ten_seconds():
    setup_s = int(DEFAULTS[cluster.SETUP_MS]) / 1000
    attempt_s = setup_s / 2
    assert attempt_s + attempt_s / 2 < 8  # the rest is the start of a process
