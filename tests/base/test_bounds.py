"""The bounds and defaults of the functions that all rooms share."""

import sys

import pytest

from coterie.base import arguments
from coterie.base.extras import missing_module
from coterie.base.operations import OPERATIONS
from coterie.base.ordering import key_order, partition_order, place_order
from coterie.base.properties import read_properties
from coterie.consumer_groups import decode_topic_id, encode_topic_id, heartbeat_response
from coterie.errors import ArgumentError, CorruptData, CoterieError, TraceError, shown
from coterie.values import Batch, Error, LeaveMember, left, listed


def test_an_integer_has_32_bits_unless_more_are_named():
    for bits, how in ((32, {}), (16, {"bits": 16}), (64, {"bits": 64})):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        for number in (least, -1, 0, most):
            assert arguments.integer(number, "it", **how) == number
        for number in (least - 1, most + 1):
            with pytest.raises(ArgumentError, match=f"it must fit {bits} bits, not {number}"):
                arguments.integer(number, "it", **how)


def test_a_text_has_at_most_its_bytes_of_utf_8():
    for text, size in (("aaaa", 4), ("\u00e9\u00e9", 4), ("\U0001f600", 4), ("", 0)):
        assert arguments.text(text, "it", size) == text
        if size:
            with pytest.raises(ArgumentError, match=f"at most {size - 1} bytes of UTF-8, not 4"):
                arguments.text(text, "it", size - 1)


def test_time_stands_or_runs_forward():
    assert [arguments.span(ms) for ms in (0, 1, 2**60)] == [0, 1, 2**60]
    with pytest.raises(ArgumentError, match=r"time runs forward only.* not -1"):
        arguments.span(-1)
    assert [arguments.milliseconds(ms, "it") for ms in (0, 2**60)] == [0, 2**60]
    for ms in (-1, 2**60 + 1):
        with pytest.raises(ArgumentError, match="it must be"):
            arguments.milliseconds(ms, "it")


def test_a_value_is_shown_with_60_characters_and_never_raises():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert shown("x" * 58) == "'" + "x" * 58 + "'"
    assert shown("x" * 59) == "'" + "x" * 59
    assert shown("x" * 59, 5) == "'xxxx"
    assert shown(Broken()) == "<Broken>"


def test_an_error_is_at_the_beginning_of_a_value_unless_it_says_where():
    assert (CorruptData("x").kind, CorruptData("x").position) == ("value", 0)
    named = CorruptData("x", kind="crc", position=7)
    assert (named.kind, named.position) == ("crc", 7)
    assert (str(TraceError("x")), TraceError("x").line) == ("x", None)
    assert (str(TraceError("x", line=3)), TraceError("x", line=3).line) == ("line 3: x", 3)


def test_a_module_that_is_missing_where_nothing_can_be_installed_is_not_in_the_folder(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)  # as PyInstaller does
    error = missing_module(ModuleNotFoundError(name="pyarrow"))
    says = "pyarrow is not in the standalone folder; with Python: pip install 'coterie[arrow]'"
    assert str(error).startswith(says)


def test_an_extra_is_named_by_what_its_command_imports_first():
    """The package that the extra names, or one that this package needs."""
    assert "coterie[mcp]" in str(missing_module(ModuleNotFoundError(name="anyio")))


def test_the_error_for_a_missing_module_says_how_to_get_its_package():
    for name in ("pyarrow", "pyarrow.parquet"):
        error = missing_module(ModuleNotFoundError(name=name))
        assert isinstance(error, CoterieError)
        assert str(error).startswith("pyarrow is not installed; pip install 'coterie[arrow]'")
    own = ModuleNotFoundError(name="parquet.pyarrow")
    with pytest.raises(ModuleNotFoundError) as raised:
        missing_module(own)
    assert raised.value is own


def test_keys_are_in_the_order_of_their_group_topic_and_partition():
    keys = [("h", "a", 0), ("g", "b", 10), ("g", "b", 9), ("g", "a", 11), ("\uff5e", "a", 1),
            ("\U0001f600", "a", 1)]  # fmt: skip
    expected = [("g", "a", 11), ("g", "b", 9), ("g", "b", 10), ("h", "a", 0),
                ("\U0001f600", "a", 1), ("\uff5e", "a", 1)]  # as UTF-16, like Java  # fmt: skip
    assert sorted(keys, key=key_order()) == expected
    places = [("b", 2), ("a", 10), ("a", 9)]
    assert sorted(places, key=place_order) == [("a", 9), ("a", 10), ("b", 2)]
    assert sorted([3, None, 0], key=partition_order) == [None, 0, 3]


def test_a_topic_id_is_16_bytes_in_the_base64_of_urls():
    raw = bytes(range(240, 256))
    assert decode_topic_id(encode_topic_id(raw)) == raw
    assert decode_topic_id("A" * 22) == decode_topic_id("A" * 22 + "==") == bytes(16)
    for text in ("A" * 20, "A" * 24, "A" * 21 + "*A", "A" * 10 + " " + "A" * 12):
        with pytest.raises(ValueError, match=r"base64|padding|16 bytes"):
            decode_topic_id(text)


def test_a_batch_is_of_no_producer_unless_it_says_so():
    assert Batch(5) == Batch(5, -1, -1, transactional=False, control=False, records=())


def test_rows_of_a_response_without_an_error_are_successes():
    response = left(Error.NONE, [("m", "i"), ("n", None, 25)])
    assert response.members == (
        LeaveMember("m", "i", Error.NONE), LeaveMember("n", None, Error.UNKNOWN_MEMBER_ID),
    )  # fmt: skip
    assert left(Error.COORDINATOR_NOT_AVAILABLE, None).members == ()
    plain, typed = listed(Error.NONE, [("g", "consumer", "Stable")]), listed(
        Error.NONE, [("g", "consumer", "Stable", "classic")])  # fmt: skip
    assert type(plain.groups[0]).__name__ == "GroupOverview"
    assert type(typed.groups[0]).__name__ == "TypedGroupOverview"


def test_a_refused_heartbeat_has_neither_a_member_nor_an_assignment():
    response = heartbeat_response(Error.FENCED_MEMBER_EPOCH, None)
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (
        None, 0, 0)  # fmt: skip
    assert response.assignment is None


def test_only_what_a_broker_does_by_itself_is_in_no_trace():
    """A trace has the requests of clients and what happens to the log; loads come from it."""
    assert {name for name, row in OPERATIONS.items() if not row.traced} == {
        "resign", "begin_load", "finish_load"}  # fmt: skip


def test_a_backslash_that_is_escaped_escapes_nothing():
    """java.util.Properties."""
    found = read_properties(b"a\\\\=b\nc\\=d=e\n")
    assert found == {"a\\": ("b", 1), "c=d": ("e", 2)}
