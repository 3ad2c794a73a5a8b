"""Plain values: their JSON form, and responses that are made from an error alone."""

import pytest

from coterie import values
from coterie.values import Error


def test_a_value_has_its_form_in_json():
    member = values.MemberSummary("m", None, "c", "/h", b"\x00\xff", b"")
    summary = values.GroupSummary("Stable", "consumer", "range", (member,))
    shown = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h",
             "metadata": "AP8=", "assignment": ""}  # fmt: skip
    group = {"state": "Stable", "protocol_type": "consumer", "protocol_name": "range"}
    for value, expected in (
        (b"\xfb\xef", "++8="),  # base64 with + and /, not that of URLs
        (Error.NOT_COORDINATOR, "NOT_COORDINATOR"),
        (16, 16),
        (None, None),
        (True, True),
        ((b"a", (Error.NONE, 1), ()), ["YQ==", ["NONE", 1], []]),
        (summary, group | {"members": [shown]}),
        (values.HeartbeatResponse(Error.NONE), {"error": "NONE"}),
        (values.RefusedOffsetFetch(Error.STALE_MEMBER_EPOCH, ()), {"error": "STALE_MEMBER_EPOCH"}),
    ):
        assert values.plain(value) == expected, value


def test_a_join_that_failed_has_no_generation_and_the_id_to_join_with():
    for payload, member_id in ((None, ""), ("", ""), ("m-1", "m-1")):
        response = values.joined(Error.MEMBER_ID_REQUIRED, payload)
        assert response == values.JoinGroupResponse(
            Error.MEMBER_ID_REQUIRED, -1, None, None, "", member_id, skip_assignment=False,
            members=(),
        )  # fmt: skip
    rows = [("m-1", "i", b"1"), ("m-2", None, b"2")]
    payload = (7, "consumer", "range", "m-1", "m-2", True, rows)
    assert values.joined(Error.NONE, payload) == values.JoinGroupResponse(
        Error.NONE, 7, "consumer", "range", "m-1", "m-2", skip_assignment=True,
        members=(values.JoinMember("m-1", "i", b"1"), values.JoinMember("m-2", None, b"2")),
    )  # fmt: skip


def test_a_sync_that_failed_has_no_assignment():
    failed = values.SyncGroupResponse(Error.UNKNOWN_MEMBER_ID, None, None, b"")
    assert values.synced(Error.UNKNOWN_MEMBER_ID, None) == failed
    ended = values.SyncGroupResponse(Error.NONE, "consumer", "range", b"a")
    assert values.synced(Error.NONE, ("consumer", "range", b"a")) == ended


def test_each_partition_has_its_own_error_and_a_longer_row_has_none():
    rows = [(("t", 1), 16), (("u", 2), 5, "offset")]
    expected = (
        values.PartitionError("t", 1, Error.NOT_COORDINATOR),
        values.PartitionError("u", 2, Error.NONE),
    )
    for make in (values.committed, values.txn_committed, values.offsets_deleted):
        response = make(Error.NONE, rows)
        assert (response.error, response.partitions) == (Error.NONE, expected)
        assert make(Error.NOT_COORDINATOR, None).partitions == ()


def test_a_fetched_offset_is_found_by_its_topic_and_partition():
    rows = [("t", 1, 5, 2, "x", 0), ("t", 2, -1, -1, "", 88), ("u", 1, 9, -1, "", 0)]
    response = values.fetched(Error.NONE, rows)
    assert response["t", 1] == values.FetchedOffset("t", 1, 5, 2, "x", Error.NONE)
    assert response["t", 2].error is Error.UNSTABLE_OFFSET_COMMIT
    assert response["u", 1].offset == 9
    with pytest.raises(KeyError, match=r"\('u', 2\)"):
        response["u", 2]
    assert values.fetched(Error.NONE, None).partitions == ()
    refused = values.fetched(Error.UNKNOWN_MEMBER_ID, False)
    assert type(refused) is values.RefusedOffsetFetch
    assert refused.partitions == ()


def test_a_group_that_is_not_there_is_described_by_empty_texts():
    response = values.described(Error.GROUP_ID_NOT_FOUND, None)
    assert response == values.DescribeGroupResponse(Error.GROUP_ID_NOT_FOUND, "", "", "", ())
    member = values.MemberSummary("m", None, "c", "/h", b"", b"")
    summary = values.GroupSummary("Stable", "consumer", "range", (member,))
    assert values.described(Error.NONE, summary) == values.DescribeGroupResponse(
        Error.NONE, "Stable", "consumer", "range", (member,)
    )


def test_each_deleted_group_has_its_own_error():
    response = values.groups_deleted(Error.NONE, [("g", 0), ("h", 68)])
    assert response.groups == (
        values.DeletedGroup("g", Error.NONE), values.DeletedGroup("h", Error.NON_EMPTY_GROUP),
    )  # fmt: skip
    assert values.groups_deleted(Error.NONE, None).groups == ()
