"""Texts of Arrow, from bytes and bounds."""

import numpy as np
import pytest

from coterie.base import arrow_text

pa = pytest.importorskip("pyarrow")


def texts(*parts):
    """Cut the parts from their bytes; None is a null."""
    data = np.frombuffer(b"".join(part or b"" for part in parts), np.uint8)
    bounds = np.cumsum([0, *(len(part or b"") for part in parts)])
    return arrow_text.texts_of(data, bounds, np.array([part is None for part in parts], bool))


@pytest.mark.parametrize("most", [4, 5, arrow_text.TEXT_BYTES_MAX])
def test_bytes_are_decoded_as_java_decodes_them_whatever_their_size(monkeypatch, most):
    monkeypatch.setattr(arrow_text, "TEXT_BYTES_MAX", most)
    for parts, expected in (
        ((), []),
        ((b"",), [""]),
        ((b"ab", None, b"", b"\x7fde"), ["ab", None, "", "\x7fde"]),
        ((b"a", b"\x80", None), ["a", "\ufffd", None]),  # no beginning of a character
        ((None, "\u00e9".encode(), b"b"), [None, "\u00e9", "b"]),
        ((b"ab", b"\xff\xc3"), ["ab", "\ufffd\ufffd"]),
    ):
        found = texts(*parts)
        assert found.type == pa.string()
        assert found.to_pylist() == expected


def test_the_bounds_of_a_string_array_are_int32():
    assert np.iinfo(np.int32).max == arrow_text.TEXT_BYTES_MAX


def test_slices_lie_between_their_bounds():
    data = np.frombuffer(b"abcdef", np.uint8)
    cut = arrow_text.slices(data, np.array([1, 3, 3, 6]))
    assert cut.to_pylist() == [b"bc", b"", b"def"]
    assert arrow_text.slices(data, np.array([2])).to_pylist() == []
