"""Options that do not go together, and values that an option refuses."""

import pytest

from support.commandline import coterie_ok, fails
from support.log_writer import batch, commit


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5)]))
    return tmp_path


@pytest.mark.parametrize("option", [("--group", "g"), ("--offsets",)])
def test_a_list_of_groups_goes_without_what_describes_one(log, option):
    assert coterie_ok("groups", log, "--list").stdout == "g\n"
    fails("groups", log, "--list", *option, status=2, says="--list goes without")


@pytest.mark.parametrize(
    "option", [("--group", ""), ("--group", "g", "--group", ""), ("--topic", "")]
)
def test_an_empty_text_names_neither_a_group_nor_a_topic_to_fetch(tmp_path, option):
    fetch = ("fetch", "--bootstrap-server", "127.0.0.1:1", "--out", tmp_path / "copy")
    fails(*fetch, *option, status=2, says="need a name")
    fails(*fetch, "--out", "", status=2, says="an empty text is no folder")
    assert not (tmp_path / "copy").exists()


def test_a_span_of_time_may_be_a_millisecond(log):
    assert "1970-01-01T00:00:00.005Z" in coterie_ok("growth", log, "--every", "1ms").stdout
