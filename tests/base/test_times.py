"""TIME: ISO 8601 with zone, or epoch milliseconds."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.base.times import LogClock, format_duration, format_time, parse_duration, parse_time

FIRST, LAST = datetime(1970, 1, 1), datetime(9999, 12, 30)  # noqa: DTZ001
MOMENTS = st.datetimes(min_value=FIRST, max_value=LAST)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        ("1970-01-01T00:00:00+18:00", -64_800_000),  # as far as java.time.ZoneOffset goes
        ("1970-01-01T00:00:00-18:00", 64_800_000),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775807", 1 - 2**63),
    ],
)
def test_each_form(text, epoch_ms):
    assert parse_time(text) == epoch_ms


@given(st.text(st.characters(exclude_categories=["N"]), max_size=30))
def test_any_other_text_is_refused_with_the_forms(text):
    with pytest.raises(ValueError, match="epoch milliseconds"):
        parse_time(text)


@pytest.mark.parametrize("text", ["٣", "٢026-01-31T14:05:00Z"])
def test_digits_of_other_scripts_are_refused(text):
    with pytest.raises(ValueError, match="epoch milliseconds"):
        parse_time(text)


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00+19:00", "1970-01-01T00:00:00+18:60"])
def test_a_zone_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="no zone is"):
        parse_time(text)


def test_what_is_beyond_any_time_is_refused():
    with pytest.raises(ValueError, match="beyond any time"):
        parse_time(str(2**63))
    longest_ms = (2**31 - 1) * 60_000  # of offsets.retention.minutes, an int32
    assert parse_duration(f"{longest_ms}ms") == longest_ms
    for text in (f"{longest_ms + 1}ms", "1491309d", f"{2**63}ms"):
        with pytest.raises(ValueError, match="longer than 1491308d2h"):
            parse_duration(text)
    assert format_time(4102444800000 + longest_ms) == "6183-01-24T02:07:00.000Z"


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 999))
def test_a_length_of_time_is_the_sum_of_its_units(days, hours, minutes, ms):
    length = timedelta(days=days, hours=hours, minutes=minutes, milliseconds=ms)
    expected = length // timedelta(milliseconds=1)
    assert parse_duration(f"{days}d{hours}h{minutes}m{ms}ms") == expected
    assert parse_duration(f"{expected}ms") == expected


@pytest.mark.parametrize("text", ["", "7", "7 days", "-1d", "1m1h", "d", "1.5h", "9" * 20 + "d"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="write 7d"):
        parse_duration(text)


def test_a_length_is_shown_in_its_two_greatest_units():
    day = 86_400_000
    assert format_duration(7 * day) == "7d"
    assert format_duration(6 * day + 3_600_000 + 59) == "6d1h"
    assert format_duration(-61_000) == "-1m1s"
    assert format_duration(0) == "0s"
    assert format_duration(day + 5) == "1d"
    assert format_duration(day + 5 * 60_000) == "1d"  # two units that follow one another


def test_local_times_that_occur_twice_are_the_later_ones_once_the_first_have_passed():
    """Berlin, 2026-10-25: from 3:00 back to 2:00 (the zone +02:00, then +01:00)."""
    clock = LogClock("Europe/Berlin")
    hour_ms, midnight_ms = 3_600_000, 1_792_879_200_000
    for text, ms in (
        ("2026-10-25 00:00:00,000", 0),
        ("2026-10-25 02:30:00,250", 2.5 * hour_ms + 250),
        ("2026-10-25 02:29:55,5", 2.5 * hour_ms - 4500),  # out of order by five seconds
        ("2026-10-25 02:29:54", 3.5 * hour_ms - 6000),  # by more: it is an hour later
        ("2026-10-25 02:10:00", 3.0 * hour_ms + 600_000),
        ("2026-10-25 03:00:00", 4.0 * hour_ms),
        ("2026-10-25 01:00:00", 1.0 * hour_ms),  # occurs once, however late its line is
    ):
        assert clock.ms(text) == midnight_ms + ms, text
    assert LogClock().ms("1970-01-01 00:00:01,5") == 1500
