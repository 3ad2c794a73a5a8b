"""``coterie fetch``: what it prints, how it ends, and its one line for each failure."""

import signal
import subprocess
import sys

import pytest

pytest.importorskip("aiokafka")

from coterie.live.cluster import addresses_of
from coterie.messages import partition_for
from coterie.server import Broker
from support.cluster.secure_listeners import USERS, jaas, tls_of, write_certificates
from support.commandline import (
    COTERIE,
    coterie_ok,
    coterie_process,
    default_sigint,
    fails,
)
from support.server.groups_of_a_broker import TOPIC, commit_offsets, copied, stored
from support.server.sockets import free_port

SETTINGS = {"offsets.topic.num.partitions": 4}
ONE_TRY = "default.api.timeout.ms=1\nretry.backoff.ms=1\n"


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 2}) as made:
        yield made


@pytest.fixture
def client(tmp_path):
    """Write a file of client properties; its path."""

    def write(text=""):
        path = tmp_path / "client.properties"
        path.write_text(ONE_TRY + text)
        return path

    return write


def fetch(broker, out, *options):
    return ("fetch", "--bootstrap-server", broker.bootstrap_servers, "--out", out, *options)


def test_it_copies_what_the_broker_stores_and_other_commands_read_it(broker, tmp_path):
    commit_offsets(broker, "payments", 12)
    out = tmp_path / "copy"
    result = coterie_ok(*fetch(broker, out))
    assert copied(out) == stored(broker)
    number = partition_for("payments", 4)
    rows = [line.split() for line in result.stdout.splitlines()[3:] if line.strip()]
    assert [row[:4] for row in rows] == [[str(number), "0", "12", str(len(stored(broker)[number]))]]
    assert "coterie: 3 partitions are empty" in result.stderr
    assert "payments" in coterie_ok("groups", out, "--list").stdout
    assert coterie_ok("verify", out).stdout == ""


def test_a_process_prints_the_same(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    out = tmp_path / "copy"
    result = coterie_ok(*fetch(broker, out, "--group", "a"), run=coterie_process)
    assert [path.name for path in out.iterdir()] == [f"{TOPIC}-{partition_for('a', 4)}"]
    assert len(result.stdout.splitlines()) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_following_ends_with_0_when_it_is_stopped(broker, tmp_path, number):
    commit_offsets(broker, "a", 10)
    command = [*COTERIE, *map(str, fetch(broker, tmp_path / "copy", "--follow"))]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    assert process.stderr.readline().endswith("; following\n")
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "coterie: 3 partitions are empty\n")
    assert len(out.splitlines()) == 5
    assert copied(tmp_path / "copy") == stored(broker)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_copy_that_is_interrupted_goes_on_later(broker, tmp_path, number, status):
    commit_offsets(broker, "a", 10)
    slow = broker.fail("Fetch", delay_ms=3_600_000)
    command = [*COTERIE, *map(str, fetch(broker, tmp_path / "copy"))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=default_sigint)
    while not slow.count:
        broker.requests()
    process.send_signal(number)
    process.communicate()
    assert process.returncode == status
    slow.cancel()
    coterie_ok(*fetch(broker, tmp_path / "copy"))
    assert copied(tmp_path / "copy") == stored(broker)


def test_an_unreachable_broker_is_named(tmp_path, client):
    address = f"127.0.0.1:{free_port()}"
    fails(
        "fetch", "--bootstrap-server", address, "--out", tmp_path / "copy",
        "--command-config", client(), says=(address, "no connection (Connection refused)"),
    )  # fmt: skip
    assert not (tmp_path / "copy").exists()


def test_the_folder_of_a_brokers_logs_is_refused_before_anything_is_written(broker, tmp_path):
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    fails(*fetch(broker, tmp_path), says=("a broker's own folder", "choose another"))
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("number", [0, 3])
def test_a_brokers_folders_of_partitions_are_refused_before_anything_is_written(
    broker, tmp_path, number
):
    commit_offsets(broker, "a", 3)
    segment = tmp_path / f"{TOPIC}-{number}" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.touch()
    says = (str(segment.parent), "segments that coterie fetch did not write")
    fails(*fetch(broker, tmp_path, "--partition", 1, "--partition", 2), says=says)
    assert list(tmp_path.rglob("*")) == [segment.parent, segment]


def test_the_folder_of_one_partition_is_refused(broker, tmp_path):
    out = tmp_path / f"{TOPIC}-3"
    fails(*fetch(broker, out), says=(str(out), "name of a partition's folder"))
    assert not out.exists()


def test_binary_properties_are_refused_in_one_line(broker, tmp_path):
    keystore = tmp_path / "client.p12"
    keystore.write_bytes(bytes.fromhex("3082 0a01 0201 03 3d 3082"))
    says = (str(keystore), "binary data; name a file of client properties")
    fails(*fetch(broker, tmp_path / "copy"), "--command-config", keystore, says=says)


def test_each_of_several_unreachable_brokers_is_named(tmp_path, client):
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    fails(
        "fetch", "--bootstrap-server", ",".join(addresses), "--out", tmp_path / "copy",
        "--command-config", client(), says=("no broker answers", *addresses),
    )  # fmt: skip


def test_a_host_without_an_address_is_named(tmp_path, client):
    fails(
        "fetch", "--bootstrap-server", "no-such-host.invalid:9092", "--out", tmp_path / "copy",
        "--command-config", client(), says="no-such-host.invalid:9092: no connection",
    )  # fmt: skip


def test_an_unknown_topic_is_named(broker, tmp_path):
    fails(*fetch(broker, tmp_path, "--topic", "nothing"), says="the cluster has no topic nothing")


def test_a_missing_permission_is_named(broker, tmp_path):
    commit_offsets(broker, "a", 10)
    broker.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    says = (TOPIC, "no permission: the user needs READ on the topic")
    fails(*fetch(broker, tmp_path), says=says)


def test_a_partition_without_a_leader_is_named(broker, tmp_path, client):
    commit_offsets(broker, "a", 10)
    broker.fail("ListOffsets", error="LEADER_NOT_AVAILABLE", times=None)
    says = (f"{TOPIC}-", "LEADER_NOT_AVAILABLE")
    fails(*fetch(broker, tmp_path, "--command-config", client()), says=says)


@pytest.mark.parametrize("text", ["", ",", "host:port", "host:0", "host:65536"])
def test_an_address_that_is_none_is_wrong_usage(text, tmp_path):
    fails("fetch", "--bootstrap-server", text, "--out", tmp_path, status=2, says="HOST:PORT")


def test_addresses_are_those_of_bootstrap_servers():
    found = addresses_of("a:65535, [::1]:1,b,SSL://c:9,[::2]")
    assert found == (("a", 65535), ("::1", 1), ("b", 9092), ("c", 9), ("::2", 9092))


def test_properties_without_an_effect_are_named(broker, tmp_path, client):
    commit_offsets(broker, "a", 1)
    config = client("interceptor.classes=X\nacks=all\n")
    result = coterie_ok(*fetch(broker, tmp_path / "copy", "--command-config", config))
    assert f"coterie: {config}: no effect here: acks, interceptor.classes\n" in result.stderr


MECHANISMS = {"PLAIN": "plain.PlainLogin", "SCRAM-SHA-256": "scram.ScramLogin",
              "SCRAM-SHA-512": "scram.ScramLogin"}  # fmt: skip


def login(mechanism, *password):
    config = jaas(MECHANISMS[mechanism], *password)
    return (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={config}\n"
    )


@pytest.fixture(scope="module")
def with_login():
    listen = ["sasl_plaintext://127.0.0.1:0", "127.0.0.1:0"]
    with Broker(SETTINGS, topics={"orders": 1}, listen=listen, sasl_users=USERS) as made:
        made.host, made.open = made.addresses
        yield made


def fill(broker, listener):
    """Commit through a listener that takes anyone."""
    from support.server.asking import commit
    from support.server.sockets import ask, connect

    ask(connect(broker, listener), "OffsetCommit", 2, commit("a", "orders", {0: 1}))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in(with_login, tmp_path, client, mechanism):
    fill(with_login, 1)
    config = client(login(mechanism))
    coterie_ok(*fetch(with_login, tmp_path / "copy", "--command-config", config))
    assert copied(tmp_path / "copy") == stored(with_login)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_named_and_not_shown(with_login, tmp_path, client, mechanism):
    config = client(login(mechanism, "mistaken"))
    result = fails(
        *fetch(with_login, tmp_path / "copy", "--command-config", config),
        says=(with_login.host, "login refused", "sasl.jaas.config"),
        run=coterie_process,  # the server of this process says so, too
    )
    assert "mistaken" not in result.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return write_certificates(folder, server=["127.0.0.1"], client=["127.0.0.1"])


@pytest.fixture(scope="module")
def with_tls(files):
    tls = tls_of(files, "server", client_ca=files / "ca.pem")
    listen = ["ssl://127.0.0.1:0", "127.0.0.1:0"]
    with Broker(SETTINGS, topics={"orders": 1}, listen=listen, tls=tls) as made:
        made.host = made.addresses[0]
        yield made


def inline(path):
    """A PEM file as one property: its lines continued, as in a properties file."""
    return " \\\n".join(path.read_text().strip().splitlines())


@pytest.mark.parametrize("form", ["files", "inline"])
def test_tls_takes_pem(with_tls, files, tmp_path, client, form):
    fill(with_tls, 1)
    stores = f"ssl.truststore.type=PEM\nssl.truststore.location={files / 'ca.pem'}\n"
    stores += f"ssl.keystore.type=PEM\nssl.keystore.location={files / 'client.pem'}\n"
    if form == "inline":
        chain = files / "client.pem"
        key = files / "client-key.pem"
        stores = f"ssl.truststore.certificates={inline(files / 'ca.pem')}\n"
        stores += f"ssl.keystore.certificate.chain={inline(chain)}\n"
        stores += f"ssl.keystore.key={inline(key)}\n"
    config = client(f"security.protocol=SSL\n{stores}")
    coterie_ok(*fetch(with_tls, tmp_path / "copy", "--command-config", config))
    assert copied(tmp_path / "copy") == stored(with_tls)


def test_a_store_that_is_not_pem_is_named_with_what_converts_it(broker, tmp_path, client):
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00")
    config = client(f"security.protocol=SSL\nssl.truststore.location={store}\n")
    says = ("ssl.truststore.location", str(store), "keytool")
    fails(*fetch(broker, tmp_path / "copy", "--command-config", config), says=says)


def test_a_mechanism_whose_package_is_missing_is_named(broker, tmp_path, client):
    config = client("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    try:
        import gssapi  # noqa: F401
    except ImportError:
        says = ("sasl.mechanism", "pip install gssapi")
        fails(*fetch(broker, tmp_path / "copy", "--command-config", config), says=says)


def test_a_missing_client_library_is_named_with_what_installs_it(tmp_path):
    code = """
import sys
sys.modules["aiokafka"] = None
from coterie.cli import main
for command in ("fetch --out x", "explain", "watch", "audit", "lag"):
    sys.argv[1:] = [*command.split(), "--bootstrap-server", "127.0.0.1:1"]
    try:
        main()
    except SystemExit as end:
        print(command, end.code)
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    wanted = "coterie: aiokafka is not installed; pip install 'coterie[cluster]'\n"
    assert run.stdout == "fetch --out x 1\nexplain 1\nwatch 1\naudit 1\nlag 1\n"
    assert run.stderr == wanted * 5
