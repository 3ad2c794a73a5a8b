"""Brokers that answer with anything: one line, and what was written before stays valid."""

import contextlib
import random
import socket
import threading

import pytest

pytest.importorskip("aiokafka")

from coterie import wire
from coterie.live.connections import SETUP_BYTES_MAX
from coterie.log.copy_state import read_copy_state
from coterie.messages import encode_batch
from support.commandline import coterie, fails
from support.server.groups_of_a_broker import TOPIC, copied

KEYS = {api.name: key for key, api in wire.APIS.items()}
VERSIONS = {"Fetch": 12, "ListOffsets": 1, "Metadata": 9, "ApiVersions": 0}
QUICK = "default.api.timeout.ms=1\nretry.backoff.ms=1\nrequest.timeout.ms=5000\n"


def batch(offset=0):
    return encode_batch([(offset, 1_000, b"k", b"v")], base_offset=offset)


class Scripted:
    """A broker on a socket that answers each API as a script says; a hostile one, too.

    ``answers``: API -> a body, bytes that are sent as they are, or None: the connection closes.
    """

    def __init__(self, **answers):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.answers = {**self.honest(), **answers}
        self.threads = [threading.Thread(target=self.accept)]

    def honest(self):
        host, _, port = self.address.rpartition(":")
        keys = [
            {"apiKey": KEYS[api], "minVersion": 0, "maxVersion": last}
            for api, last in VERSIONS.items()
        ]
        part = {"partitionIndex": 0, "errorCode": 0, "leaderId": 1, "leaderEpoch": 0}
        part |= {"replicaNodes": [1], "isrNodes": [1], "offlineReplicas": []}
        topic = {"errorCode": 0, "name": TOPIC, "isInternal": True, "partitions": [part]}
        brokers = [{"nodeId": 1, "host": host, "port": int(port), "rack": None}]
        return {
            "ApiVersions": {"errorCode": 0, "apiKeys": keys},
            "Metadata": {
                "brokers": brokers, "clusterId": "c", "controllerId": 1, "topics": [topic],
            },
            "ListOffsets": self.listed(0, 1),
            "Fetch": self.fetched(batch()),
        }  # fmt: skip

    @staticmethod
    def listed(earliest, latest):
        def answer(body):
            asked = body["topics"][0]["partitions"][0]["timestamp"]
            offset = earliest if asked == -2 else latest
            part = {"partitionIndex": 0, "errorCode": 0, "timestamp": -1, "offset": offset}
            return {"topics": [{"name": TOPIC, "partitions": [part]}]}

        return answer

    @staticmethod
    def fetched(records, end=1, **fields):
        part = {"partitionIndex": 0, "errorCode": 0, "highWatermark": end, "lastStableOffset": end}
        part |= {"logStartOffset": 0, "abortedTransactions": None, "records": records, **fields}
        return {"errorCode": 0, "sessionId": 0,
                "responses": [{"topic": TOPIC, "partitions": [part]}]}  # fmt: skip

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *failure):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for thread in self.threads:
            thread.join()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                self.threads.append(threading.Thread(target=self.serve, args=(connection,)))
                self.threads[-1].start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while size := stream.read(4):  # TLS and HTTP are tried, too
                if size[:1] != b"\0":
                    return
                request = wire.decode_request(stream.read(int.from_bytes(size, "big")))
                api = wire.APIS[request.api_key].name
                answer = self.answers.get(api)
                if callable(answer):
                    answer = answer(request.body)
                if answer is None:
                    return
                if not isinstance(answer, bytes):
                    frame = wire.encode_response(
                        request.api_key, request.api_version, answer,
                        correlation_id=request.correlation_id,
                    )  # fmt: skip
                    answer = len(frame).to_bytes(4, "big") + frame
                connection.sendall(answer)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(QUICK)
    return path


def fetch(broker, out, config):
    return ("fetch", "--bootstrap-server", broker.address, "--out", out, "--command-config", config)


def test_the_scripted_broker_can_be_copied(tmp_path, config):
    with Scripted() as broker:
        result = coterie(*fetch(broker, tmp_path / "copy", config))
    assert result.returncode == 0, result.stderr
    assert copied(tmp_path / "copy") == {0: batch()}


def test_a_response_may_be_longer_than_those_before_a_connection_is_set_up(tmp_path, config):
    long = encode_batch([(0, 1_000, b"k", bytes(SETUP_BYTES_MAX))], base_offset=0)
    with Scripted(Fetch=Scripted.fetched(long)) as broker:
        assert coterie(*fetch(broker, tmp_path / "copy", config)).returncode == 0
    assert copied(tmp_path / "copy") == {0: long}


def test_a_broker_may_have_the_id_0(tmp_path, config):
    with Scripted() as broker:
        metadata = broker.answers["Metadata"]
        metadata["brokers"][0]["nodeId"] = 0
        metadata["topics"][0]["partitions"][0]["leaderId"] = 0
        result = coterie(*fetch(broker, tmp_path / "copy", config))
    assert result.returncode == 0, result.stderr
    assert copied(tmp_path / "copy") == {0: batch()}


HUGE = (2**31 - 1).to_bytes(4, "big") + b"1234"
NEGATIVE = (-5).to_bytes(4, "big", signed=True)
SHORT = b"\0\0\0\1x"
NONSENSE = b"\0\0\0\x08" + b"\xff" * 8
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata", "ListOffsets", "Fetch"])
@pytest.mark.parametrize("answer", [HUGE, NEGATIVE, SHORT, NONSENSE, HTTP, None])
def test_a_frame_that_is_none_is_one_line(tmp_path, config, api, answer):
    with Scripted(**{api: answer}) as broker:
        fails(*fetch(broker, tmp_path / "copy", config), says="127.0.0.1:")


@pytest.mark.parametrize(
    ("fetched", "says"),
    [
        (Scripted.fetched(b"\0" * 30), "without a whole batch"),
        (Scripted.fetched(batch()[:-1]), "without a whole batch"),
        (Scripted.fetched(b""), "sends nothing of its log"),
        (Scripted.fetched(None), "sends nothing of its log"),
        (Scripted.fetched(batch(), partitionIndex=7), "about another partition"),
        (Scripted.fetched(batch(), errorCode=2), "CORRUPT_MESSAGE"),
        (Scripted.fetched(batch(), errorCode=-1), "UNKNOWN_SERVER_ERROR"),
        (Scripted.fetched(batch(), errorCode=12345), "error 12345"),
        (Scripted.fetched(None, errorCode=1), "out of range"),
        (Scripted.fetched(None, divergingEpoch={"epoch": 0, "endOffset": 0}), "differs from"),
    ],
)
def test_a_response_that_makes_no_sense_is_one_line(tmp_path, config, fetched, says):
    with Scripted(Fetch=fetched) as broker:
        fails(*fetch(broker, tmp_path / "copy", config), says=says)


@pytest.mark.parametrize("at", [2, 16, 23, 26, 68])  # offset, magic, checksum, delta, a record
def test_a_damaged_batch_leaves_an_incomplete_copy(tmp_path, config, at):
    """`fetch` passed over the records behind it, with exit status 0, and called that complete."""
    damaged = bytearray(batch(1) + batch(2))
    damaged[at] ^= 1
    out = tmp_path / "copy"

    def answer(body):
        offset = body["topics"][0]["partitions"][0]["fetchOffset"]
        return Scripted.fetched(bytes(damaged) if offset else batch() + damaged, end=3)

    with Scripted(ListOffsets=Scripted.listed(0, 3), Fetch=answer) as broker:
        says = (f"{TOPIC}-0: the broker sent", "what follows is not in the copy")
        fails(*fetch(broker, out, config), says=says)
    assert copied(out) == {0: batch()}
    assert read_copy_state(out / f"{TOPIC}-0").complete_until_ms is None
    sound = Scripted.fetched(batch(1) + batch(2), end=3)
    with Scripted(ListOffsets=Scripted.listed(0, 3), Fetch=sound) as broker:
        assert coterie(*fetch(broker, out, config)).returncode == 0
    assert copied(out) == {0: batch() + batch(1) + batch(2)}


def test_offsets_that_were_not_requested_are_refused_and_the_copy_stays(tmp_path, config):
    out = tmp_path / "copy"
    with Scripted() as broker:
        assert coterie(*fetch(broker, out, config)).returncode == 0
    again = Scripted.fetched(batch(), end=2)
    with Scripted(ListOffsets=Scripted.listed(0, 2), Fetch=again) as broker:
        fails(*fetch(broker, out, config), says="sent offsets 0 to 0; offset 1 was requested")
    assert copied(out) == {0: batch()}


def test_an_offset_that_is_none_is_one_line(tmp_path, config):
    with Scripted(ListOffsets=Scripted.listed(0, -1)) as broker:
        says = f"{TOPIC}-0: the broker answers offset -1"
        fails(*fetch(broker, tmp_path / "copy", config), says=says)


def test_brokers_that_become_those_of_another_cluster_are_refused(tmp_path, config):
    ids = iter("cddd")
    with Scripted(Fetch=Scripted.fetched(None, errorCode=6)) as broker:
        metadata = broker.answers["Metadata"]
        broker.answers["Metadata"] = lambda _: metadata | {"clusterId": next(ids)}
        says = "the brokers were of cluster c, now d"
        fails(*fetch(broker, tmp_path / "copy", config), says=says)


@pytest.mark.parametrize("numbers", [[], [1], [0, 2], [-1, 0], [0, 0]])
def test_a_topic_whose_partitions_are_not_all_named_is_not_copied(tmp_path, config, numbers):
    """A group's partition follows from their count; without any, a copy was complete."""
    with Scripted() as broker:
        (topic,) = broker.answers["Metadata"]["topics"]
        topic["partitions"] = [topic["partitions"][0] | {"partitionIndex": n} for n in numbers]
        fails(*fetch(broker, tmp_path / "copy", config), says="does not name all of its part")


@pytest.mark.parametrize("host", ["", "a" * 70 + ".example", "a\0b", "no such host"])
def test_a_name_of_a_broker_that_is_none_is_one_line(tmp_path, config, host):
    with Scripted() as broker:
        broker.answers["Metadata"]["brokers"][0]["host"] = host
        fails(*fetch(broker, tmp_path / "copy", config), says="broker 1, ")


def test_a_partition_without_a_leader_is_named(tmp_path, config):
    with Scripted() as broker:
        broker.answers["Metadata"]["topics"][0]["partitions"][0]["leaderId"] = -1
        fails(*fetch(broker, tmp_path / "copy", config), says=f"{TOPIC}-0: has no leader")


def test_a_broker_that_is_too_old_is_named(tmp_path, config):
    with Scripted() as broker:
        keys = broker.answers["ApiVersions"]["apiKeys"]
        next(key for key in keys if key["apiKey"] == KEYS["Fetch"])["maxVersion"] = 3
        fails(*fetch(broker, tmp_path / "copy", config), says="Fetch in versions 0 to 3: too old")


def test_any_bytes_in_the_place_of_batches_are_one_line(tmp_path, config):
    draw = random.Random(5)
    for number in range(40):
        data = bytearray(batch() * 3)
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        data = bytes(data[: draw.randint(1, len(data))])
        with Scripted(Fetch=Scripted.fetched(data)) as broker:
            result = coterie(*fetch(broker, tmp_path / f"copy{number}", config))
        assert result.returncode in (0, 1)
        assert len(result.stderr.splitlines()) <= 1, result.stderr
        assert "fault of coterie" not in result.stderr, result.stderr
