"""Options that do not go together, and values that an option refuses."""

import pytest

from coterie.cli.trace import factors
from support.commandline import coterie_ok, fails
from support.log_writer import batch, commit


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5)]))
    return tmp_path


@pytest.mark.parametrize("option", [("--group", "g"), ("--offsets",), ("--members",)])
def test_a_list_of_groups_goes_without_what_describes_one(log, option):
    assert coterie_ok("groups", log, "--list").stdout == "g\n"
    fails("groups", log, "--list", *option, status=2, says="--list goes without")


@pytest.mark.parametrize(
    "option", [("--group", ""), ("--group", "g", "--group", ""), ("--topic", "")]
)
def test_an_empty_text_names_neither_a_group_nor_a_topic_to_fetch(tmp_path, option):
    fetch = ("fetch", "--bootstrap-server", "127.0.0.1:1", "--out", tmp_path / "copy")
    fails(*fetch, *option, status=2, says="need a name")
    assert not (tmp_path / "copy").exists()


def test_a_span_of_time_is_longer_than_0(log):
    fails("growth", log, "--every", "0s", status=2, says="--every")
    assert "1970-01-01T00:00:00.005Z" in coterie_ok("growth", log, "--every", "1ms").stdout


@pytest.mark.parametrize(
    ("pair", "by_client"),
    [("c=0.5", {"c": 0.5}), ("a=b=2", {"a=b": 2.0}), ("c=999999", {"c": 999_999.0})],
)
def test_a_session_is_scaled_by_the_number_behind_the_last_sign(pair, by_client):
    assert factors((pair,)) == by_client


@pytest.mark.parametrize("pair", ["c", "c=", "c=x", "=2", "c=0", "c=-1", "c=1000000", "c=nan"])
def test_a_session_is_scaled_for_a_client_and_by_a_number_above_0(tmp_path, pair):
    trace = tmp_path / "one.trace.jsonl"
    trace.write_text('{"format": "coterie-trace", "version": 1, "name": "t"}\n')
    ask = ("trace", "whatif", trace, "--scale-session", pair)
    fails(*ask, status=2, says=(f"'{pair}'", "must be CLIENT=FACTOR"))
