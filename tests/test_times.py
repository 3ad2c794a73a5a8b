"""TIME: ISO 8601 with zone, or epoch milliseconds."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.times import format_time, parse_time

FIRST, LAST = datetime(1970, 1, 1), datetime(9999, 12, 30)  # noqa: DTZ001
MOMENTS = st.datetimes(min_value=FIRST, max_value=LAST)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@given(MOMENTS, ZONES, st.sampled_from(["microseconds", "milliseconds", "seconds", "minutes"]))
def test_what_python_writes_is_read(moment, zone, precision):
    text = moment.replace(tzinfo=zone).isoformat(timespec=precision)
    expected = (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)
    assert parse_time(text) == expected
    assert parse_time(text.replace("T", " ")) == expected


@given(st.integers(0, 253_402_300_799_999))
def test_what_is_written_is_read_back(epoch_ms):
    assert parse_time(format_time(epoch_ms)) == epoch_ms
    assert parse_time(str(epoch_ms)) == epoch_ms


@pytest.mark.parametrize(
    ("text", "epoch_ms"),
    [
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T01:00:00.5+01", 500),
        ("1970-01-01T00:00:00,123456789Z", 123),
        ("1969-12-31T23:59:59.999z", -1),
        ("2000-02-29T12:00:00-0330", 951_838_200_000),
        ("-1", -1),
    ],
)
def test_each_form(text, epoch_ms):
    assert parse_time(text) == epoch_ms


@given(st.text(st.characters(exclude_categories=["N"]), max_size=30))
def test_any_other_text_is_refused_with_the_forms(text):
    with pytest.raises(ValueError, match="epoch milliseconds"):
        parse_time(text)
