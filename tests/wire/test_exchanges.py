"""Lines of a request log: their times, their connections, and the fields of their versions."""

from collections import Counter

import pytest

from coterie.errors import CoterieError
from coterie.wire import APIS
from coterie.wire.exchanges import Connection, Exchange, as_kafka_logs_it, exchanges
from coterie.wire.logged import as_logged
from coterie.wire.varints import unsigned_varint
from support.request_lines import line

TIMES = {"totalTimeMs": 20.5, "requestQueueTimeMs": 1.25, "localTimeMs": 2.5,
         "responseQueueTimeMs": 3.5, "sendTimeMs": 4.75}  # fmt: skip
SENT_MS = 1_767_225_601_250  # 2026-01-01 00:00:01.250 in UTC


def test_a_line_is_an_exchange_with_its_times():
    text = line("HEARTBEAT", 4, {"groupId": "g"}, {"errorCode": 0}, 1250, principal="User:a",
                connection="[::1]:9092-[fe80::2]:4000-7-31", **TIMES)  # fmt: skip
    left_out = Counter()
    lines = ["", "  \n", "another line", text.encode(), b"\xff"]
    (found,) = exchanges(lines, left_out)
    assert found == Exchange(
        line=4, came_ms=SENT_MS - 20.5, handled_ms=SENT_MS - 20.5 + 1.25,
        answered_ms=SENT_MS - 3.5 - 4.75, sent_ms=SENT_MS, local_ms=2.5, api="HEARTBEAT",
        version=4, client_id="c", client_host="/fe80::2", request={"groupId": "g"},
        response={"errorCode": 0}, principal="User:a",
        connection=Connection("[::1]:9092-[fe80::2]:4000-7-31", ("[::1]:9092", "7"), 31),
    )  # fmt: skip
    assert left_out == {"lines that are no completed request": 2}


def test_what_an_old_broker_does_not_log_is_taken_as_nothing():
    text = line("HEARTBEAT", 4, {}, {}, 1250, client=None, connection="unknown")
    text = text.replace('"requestQueueTimeMs": 0.1, ', "").replace(
        ', "requestQueueTimeMs": 0.1', ""
    )
    (found,) = exchanges([text], Counter())
    assert (found.handled_ms, found.came_ms) == (SENT_MS - 0.5, SENT_MS - 0.5)
    assert (found.answered_ms, found.local_ms) == (SENT_MS, 0)
    assert (found.client_id, found.client_host) == ("", "/127.0.0.1")
    assert (found.connection, found.principal) == (None, None)
    (found,) = exchanges([line("HEARTBEAT", 4, {}, {}, connection="h:1-h2:2-3")], Counter())
    assert found.connection == Connection("h:1-h2:2-3", ("h:1", None), 3)


def test_only_the_chosen_apis_are_read():
    lines = [line(api, 3, {}, {}) for api in ("FETCH", "HEARTBEAT", "JOIN_GROUP")]
    lines[0] = lines[0].replace("}", "")  # it is not parsed
    chosen = frozenset(["HEARTBEAT", "JOIN_GROUP"])
    assert [each.api for each in exchanges(lines, Counter(), chosen)] == ["HEARTBEAT", "JOIN_GROUP"]


def test_times_are_of_the_zone_of_the_log():
    (found,) = exchanges([line("HEARTBEAT", 4, {}, {}, 1250)], Counter(), zone="+02:00")
    assert found.sent_ms == SENT_MS - 2 * 3_600_000


@pytest.mark.parametrize("missing", ["totalTimeMs", "requestHeader", "request", "response"])
def test_a_line_without_what_kafka_logs_is_named(missing):
    good = line("HEARTBEAT", 4, {}, {})
    with pytest.raises(CoterieError, match="line 2: no completed request as Kafka logs it"):
        list(exchanges([good, good.replace(f'"{missing}"', '"other"')], Counter()))


@pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, AttributeError])
def test_what_cannot_be_read_of_an_exchange_is_named_by_its_line(error):
    (found,) = exchanges([line("HEARTBEAT", 4, {}, {})], Counter())
    message = r"line 1: HEARTBEAT version 4 is not as Kafka logs it \((it has no )?what\)"
    with pytest.raises(CoterieError, match=message), as_kafka_logs_it(found):
        raise error("what")
    with pytest.raises(RuntimeError), as_kafka_logs_it(found):
        raise RuntimeError


@pytest.mark.parametrize(("version", "has"), [(0, False), (4, False), (5, True), (9, True)])
def test_a_logged_request_knows_the_fields_of_its_version(version, has):
    """JoinGroup has group instance ids since version 5, reasons since 8; its last version is 9."""
    logged = as_logged("JOIN_GROUP", "request", version, {"groupId": "g"})
    assert logged.has("groupInstanceId") is has
    assert logged.has("reason") is (version >= 8)
    assert logged.has("groupId")
    if not has:
        assert logged["groupInstanceId"] is None  # as in a version that lacks it
    with pytest.raises(KeyError):
        _ = logged["memberId"]  # Kafka would have logged it
    with pytest.raises(KeyError):
        _ = logged["none"]
    assert logged.optional("memberId") == ""
    assert logged.optional("sessionTimeoutMs") == 0
    assert logged.optional("protocols") == []


def test_tagged_fields_are_logged_only_where_they_differ_from_their_default():
    """``nodeEndpoints`` has tag 0 and no default of its own; ``currentLeader`` is a struct."""
    logged = as_logged("FETCH", "response", 16, {"responses": [{"partitions": [{}]}]})
    assert logged["nodeEndpoints"] == []
    partition = logged["responses"][0]["partitions"][0]
    assert partition["currentLeader"] is None
    with pytest.raises(KeyError):
        _ = partition["partitionIndex"]


def test_an_unknown_version_is_read_as_the_nearest():
    for version, nearest in ((-1, 0), (0, 0), (9, 9), (10, 9), (99, 9)):
        assert as_logged("JOIN_GROUP", "request", version, {}).version == nearest
    assert as_logged("NO_API", "request", 3, {"a": 1}) == {"a": 1}
    assert as_logged("JOIN_GROUP", "request", 3, None) is None


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "80 01"), (300, "ac 02"), (16_383, "ff 7f"),
     (16_384, "80 80 01"), (2**31, "80 80 80 80 08")],
)  # fmt: skip
def test_a_varint_has_seven_bits_in_a_byte_the_lowest_first(number, data):
    assert unsigned_varint(number) == bytes.fromhex(data)


def test_the_apis_have_the_keys_and_versions_of_kafka():
    """Of the message schemas of Kafka 3.9 and 4.1: the last version is that of the newest."""
    assert all(key == api.key for key, api in APIS.items())
    assert [APIS[key].name for key in (0, 3, 11, 18)] == [
        "Produce", "Metadata", "JoinGroup", "ApiVersions",
    ]  # fmt: skip
    flexible = {0: 9, 3: 9, 11: 6, 18: 3, 25: 3}
    assert {key: APIS[key].flexible_version for key in flexible} == flexible
