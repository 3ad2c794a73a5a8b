"""Which groups `--group` and `--group-exclude` choose: ids, and patterns of whole ids."""

import pytest

from coterie.cli.failures import Failed
from coterie.cli.group_names import chosen_groups
from coterie.log.folders import find_segments
from support.commandline import coterie, coterie_ok, fails
from support.log_writer import commit, each

IDS = ("pay", "payroll", "pay*", "test-1")


@pytest.fixture(scope="module")
def listing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ids") / "__consumer_offsets-0"
    folder.mkdir()
    records = [commit(at, group=name.encode()) for at, name in enumerate(IDS)]
    (folder / f"{0:020}.log").write_bytes(b"".join(each(0, *records)))
    return find_segments([folder])


@pytest.mark.parametrize(
    ("requested", "excluded", "chosen"),
    [
        ("", "", None),
        ("pay", "", "pay"),
        ("gone pay gone", "", "pay gone"),
        ("pay*", "", "pay*"),  # an id of that text goes before the pattern
        ("pay?*", "", "payroll pay*"),
        ("pay??*", "", "payroll"),
        ("test-[0-9] gone", "", "test-1 gone"),
        ("[!p]*", "", "test-1"),
        ("", "pay*", "pay payroll test-1"),
        ("", "pay?*", "pay test-1"),
        ("", "gone test-?", "pay payroll pay*"),
        ("pay gone", "gone", "pay"),
        ("pay gone", "g*", "pay"),
        ("pay? *roll", "pay*", "payroll"),
    ],
)
def test_ids_and_patterns_choose_groups_and_leave_some_out(listing, requested, excluded, chosen):
    found = chosen_groups(requested.split(), listing, excluded=excluded.split())
    assert found == (None if chosen is None else set(chosen.split()))


@pytest.mark.parametrize(
    ("requested", "excluded", "says"),
    [
        ("PAY?", "", "that matches 'PAY?'"),  # case matters
        ("pay ay*", "", "that matches 'ay\\*'"),  # a pattern matches a whole id
        ("pay", "p*", "--group-exclude leaves out every group: 'p\\*'"),
        ("gone", "pay gone", "leaves out every group: 'pay', 'gone'"),
        ("", "t* [!t]*", "leaves out every group"),
    ],
)
def test_a_pattern_without_a_group_and_an_exclusion_of_all_fail(listing, requested, excluded, says):
    with pytest.raises(Failed, match=says.replace("?", r"\?").replace("[", r"\[")):
        chosen_groups(requested.split(), listing, excluded=excluded.split())


def test_patterns_need_a_log_on_plain_paths_and_ids_do_not():
    paths = ["hdfs:/log"]
    assert chosen_groups(["pay"], paths) == {"pay"}
    for requested, excluded in ((["p*"], []), ([], ["pay"]), (["pay"], ["test-1"])):
        with pytest.raises(Failed, match="need a log on plain paths"):
            chosen_groups(requested, paths, excluded=excluded)


@pytest.mark.parametrize("command", ["records", "replay", "explain", "groups"])
def test_an_unknown_group_fails_whatever_is_done_with_it(command, listing, tmp_path):
    log, out = listing.segments[0].path, tmp_path / "out"
    more = {"replay": ("--out", out, "--format", "json"), "groups": ("--describe",)}
    for names in (["gone"], ["pay", "gone"], ["pay*", "gone"]):
        chosen = [word for name in names for word in ("--group", name)]
        ran = coterie(command, log, *more.get(command, ()), *chosen)
        assert (ran.returncode, "gone" in ran.stderr) == (1, True)
        assert not out.exists()
    excluded = ("--group", "gone", "--group", "pay", "--group-exclude", "gone")
    if command != "groups":
        coterie_ok(command, log, *more.get(command, ()), *excluded)


def test_a_group_that_begins_after_a_time_is_none_before(tmp_path, listing):
    log, out = listing.segments[0].path, tmp_path / "out"
    fails("replay", log, "--out", out, "--group", "test-1", "--at", 2, says="'test-1' up to 1970")
    assert not out.exists()
    assert coterie_ok("records", log, "--group", "test-1", "--until", 2).stdout == ""
