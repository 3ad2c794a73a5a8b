"""The types of groups in a broker's responses, and what a trace has of them."""

import pytest

from coterie import run_trace
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import compare_responses
from support.request_lines import commit, events, line


def listed(ms, **types):
    """A response with these groups, which have offsets alone; each has a type, as since 3.8."""
    groups = [
        {"groupId": group, "protocolType": "", "groupState": "Empty", "groupType": group_type}
        for group, group_type in types.items()
    ]
    return line("LIST_GROUPS", 5, {}, {"errorCode": 0, "groups": groups}, ms)


@pytest.mark.parametrize("group_type", ["Classic", "classic", "Unknown", ""])
def test_a_group_of_a_classic_or_no_type_is_part_of_the_trace(group_type):
    made = import_request_log([commit(0), listed(5, g=group_type)])
    assert made.left_out == {}
    assert [event["op"] for event in events(made)] == ["offset_commit", "list_groups"]


@pytest.mark.parametrize(("behaviour", "version"), [("3.9", 1), ("4.1", 2)])
def test_a_listed_group_has_its_type_only_in_a_trace_of_version_2(behaviour, version):
    lines = [commit(0), listed(5, g="Classic")]
    made = import_request_log(lines, {"coterie.behaviour": behaviour})
    assert made.trace[0]["version"] == version
    (group,) = made.expected[1]["groups"]
    assert ("type" in group) == (version == 2)
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []


@pytest.mark.parametrize(("code", "is_share_group"), [(0, True), (69, False)])
def test_a_group_that_a_description_does_not_find_may_be_of_another_type(code, is_share_group):
    group = {"groupId": "g", "errorCode": code, "groupState": "Dead", "members": []}
    described = line("SHARE_GROUP_DESCRIBE", 1, {"groupIds": ["g"]}, {"groups": [group]}, 5)
    made = import_request_log([commit(0), commit(0, ms=2, group="h"), described])
    groups = [event["group_id"] for event in events(made)]
    assert groups == (["h"] if is_share_group else ["g", "h"])
