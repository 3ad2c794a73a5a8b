"""What the lines of a group coordinator say, in the words of each release from Kafka 1.0 to 4.4."""

import re

import pytest

from coterie.base.log_layouts import LogReader
from coterie.base.user_files import open_lines
from coterie.insight.questions.server_log import read_server_log
from coterie.insight.questions.server_log_phrases import PHRASES, server_lines
from support.golden_data import GOLDEN

AT_MS = 1_795_894_831_780
SHARD = "[GroupCoordinator id=1 topic=__consumer_offsets partition=13] "
OF_1_0 = "MemberMetadata(memberId=app-1, groupInstanceId=Some(i), clientId=app, clientHost=/::1, )"


def left(**fields):
    return {"what": "left", "group": "g h", "member_id": "app-1"} | fields


def evicted(**fields):
    return left(what="evicted", **fields)


def replaced(instance_id="i-1", **fields):
    of = {"what": "replaced", "group": "g h", "member_id": "app-1", "instance_id": instance_id}
    return of | fields


LINES = [  # first release with these words, text, what it says
    ("1.0", "Preparing to rebalance group g h with old generation 3 (__consumer_offsets-13)",
     [{"what": "preparing", "group": "g h", "generation": 4, "detail": None}]),
    ("2.1", "Preparing to rebalance group g h in state PreparingRebalance with old generation 3"
     " (__consumer_offsets-13) (reason: removing member app-1 on heartbeat expiration)",
     [{"what": "preparing", "group": "g h", "generation": 4,
       "detail": "removing member app-1 on heartbeat expiration"}]),
    ("3.7", SHARD + "Preparing to rebalance group g h in state PreparingRebalance with old"
     " generation 3 (reason: explicit `LeaveGroup` request for (app-1) members.).",
     [{"what": "preparing", "group": "g h", "generation": 4,
       "detail": "explicit `LeaveGroup` request for (app-1) members."}]),
    ("1.0", "Assignment received from leader for group g h for generation 4",
     [{"what": "assigned", "group": "g h", "generation": 4, "member_id": None}]),
    ("2.8", "Assignment received from leader for group g h for generation 4. The group has 2"
     " members, 0 of which are static.",
     [{"what": "assigned", "group": "g h", "generation": 4, "member_id": None}]),
    ("3.0", "Assignment received from leader app-1 for group g h for generation 4. The group has 2"
     " members, 0 of which are static.",
     [{"what": "assigned", "group": "g h", "generation": 4, "member_id": "app-1"}]),
    ("1.0", "Member app-1 in group g h has failed, removing it from the group", [evicted()]),
    ("3.7", SHARD + "Member app-1 in group g h has failed, removing it from the group.",
     [evicted()]),
    ("2.7", "Group g h remove dynamic members who haven't joined: Set(app-1, app-2)",
     [evicted(detail="haven't joined"), evicted(member_id="app-2", detail="haven't joined")]),
    ("2.8", "Group g h removed dynamic members who haven't joined: Set(app-1)",
     [evicted(detail="haven't joined")]),
    ("3.7", SHARD + "Group g h removed dynamic members who haven't joined: [app-1, app-2]",
     [evicted(detail="haven't joined"), evicted(member_id="app-2", detail="haven't joined")]),
    ("3.7", SHARD + "[GroupId g h] Member app-1 fenced from the group because its session expired.",
     [evicted(detail="its session expired")]),
    ("3.8", SHARD + "[GroupId g h] Member app-1 fenced from the group because it failed to"
     " transition from epoch 3 within 45000ms.",
     [evicted(detail="it failed to transition from epoch 3 within 45000ms")]),
    ("4.1", SHARD + "[GroupId g h] Streams member app-1 fenced from the group because the member"
     " session expired.", [evicted(detail="the member session expired")]),
    ("1.0", "Member app-1 in group g h has left, removing it from the group", [left()]),
    ("2.4", "Member[group.instance.id Some(i), member.id app-1] in group g h has left, removing it"
     " from the group", [left()]),
    ("3.0", f"Member {OF_1_0} has left group g h through explicit `LeaveGroup` request", [left()]),
    ("3.2", f"Member {OF_1_0} has left group g h through explicit `LeaveGroup`; client reason: the"
     " consumer is being closed", [left(detail="the consumer is being closed")]),
    ("3.7", SHARD + "[Group g h] Member app-1 has left group through explicit `LeaveGroup` request;"
     " client reason: not provided", [left(detail="not provided")]),
    ("3.8", SHARD + "[Group g h] Static Member app-1 with instance id i has left group through"
     " explicit `LeaveGroup` request; client reason: bye", [left(detail="bye")]),
    ("4.0", SHARD + "[GroupId g h] Dynamic member app-1 has left group through explicit"
     " `LeaveGroup` request; client reason: bye", [left(detail="bye")]),
    ("3.7", SHARD + "[GroupId g h] Member app-1 left the consumer group.", [left()]),
    ("3.7", SHARD + "[GroupId g h] Static Member app-1 with instance id i left the consumer group.",
     [left()]),
    ("3.9", SHARD + "[GroupId g h] Member app-1 left the share group.", [left()]),
    ("4.1", SHARD + "[GroupId g h][MemberId app-1] Member app-1 left the streams group.",
     [left()]),
    # A static member that is expected back is still a member.
    ("3.7", SHARD + "[GroupId g h] Static Member app-1 with instance id i temporarily left the"
     " consumer group.", []),
    ("3.0", "Pending member with memberId=app-1 has left group g h through explicit `LeaveGroup`"
     " request", []),
    ("3.7", SHARD + "[Group g h] Pending member app-1 has left group through explicit `LeaveGroup`"
     " request; client reason: not provided", []),
    ("2.3", "Static member Some(i-1) with unknown member id rejoins, assigning new member id app-2,"
     " while old member app-1 will be removed.",
     [replaced(group="", detail="assigning new member id app-2, while old member app-1 will be"
               " removed")]),
    ("2.5", "Static member Some(i-1) of group g h with unknown member id rejoins, assigning new"
     " member id app-2, while old member id app-1 will be removed.",
     [replaced(detail="assigning new member id app-2, while old member id app-1 will be"
               " removed")]),
    ("3.0", "Static member with groupInstanceId=i-1 and unknown member id joins group g h in Stable"
     " state. Replacing previously mapped member app-1 with this groupInstanceId.",
     [replaced(detail="Replacing previously mapped member app-1 with this groupInstanceId")]),
    ("3.8", SHARD + "[GroupId g h] Static member with unknown member id and instance id i-1"
     " re-joins the consumer group. Created a new member app-2 to replace the existing member"
     " app-1.",
     [replaced(detail="Created a new member app-2 to replace the existing member app-1")]),
    ("3.9", SHARD + "[GroupId g h] Static member with instance id i-1 re-joins the consumer group"
     " using the classic protocol. Created a new member app-2 to replace the existing member"
     " app-1.",
     [replaced(detail="Created a new member app-2 to replace the existing member app-1")]),
    ("4.4", SHARD + "[GroupId g h][MemberId app-2] Static member with instance id i-1 re-joins the"
     " streams group using the streams protocol. Created a new member app-2 to replace the existing"
     " member app-1.",
     [replaced(detail="Created a new member app-2 to replace the existing member app-1")]),
    ("1.1", "The following groups were deleted: g, h",
     [{"what": "group_deleted", "group": name} for name in "gh"]),
    ("2.0", "The following groups were deleted: g, h. A total of 3 offsets were removed.",
     [{"what": "group_deleted", "group": name} for name in "gh"]),
    ("2.4", "The following offsets of the group g h were deleted: t-0, u.v-1. A total of 2 offsets"
     " were removed.", [{"what": "offsets_deleted", "group": "g h", "topics": ("t", "u.v")}]),
    ("2.0", "Removed 2 offsets associated with deleted partitions: t-0, u.v-1.",
     [{"what": "topic_deleted", "group": "", "topics": ("t", "u.v")}]),
    ("3.8", SHARD + "Generated 2 tombstone records in 30 milliseconds while deleting offsets for"
     " partitions [t-0, u.v-1].",
     [{"what": "topic_deleted", "topics": ("t", "u.v"), "generation": 13, "at_ms": AT_MS - 30}]),
    ("4.4", SHARD + "Generated 2 tombstone records in 30 milliseconds while deleting offsets for"
     " topics [DeletedTopic[id=NZYL1-oDRuqFu3kho_lavQ, name=t], DeletedTopic[id=u, name=u.v]].",
     [{"what": "topic_deleted", "topics": ("t", "u.v"), "generation": 13, "at_ms": AT_MS - 30}]),
    ("1.0", "Removed 2 expired offsets in 30 milliseconds.",
     [{"what": "expired", "group": "", "at_ms": AT_MS - 30}]),
    ("3.7", SHARD + "Generated 2 tombstone records while cleaning up group metadata in 30"
     " milliseconds.", [{"what": "expired", "generation": 13, "at_ms": AT_MS - 30}]),
    ("1.0", "Group g h transitioned to Dead in generation 4",
     [{"what": "expired", "group": "g h"}]),
    ("1.0", "Finished loading offsets and group metadata from __consumer_offsets-13 in 9"
     " milliseconds.", [{"what": "loaded", "group": "", "generation": 13}]),
    ("3.7", "[GroupCoordinator id=1] Finished loading of metadata from __consumer_offsets-13 with"
     " epoch 1 in 9ms where 0ms was spent in the scheduler. Loaded 5 records which total to 9"
     " bytes.", [{"what": "loaded", "group": "", "generation": 13}]),
]  # fmt: skip


ENDS = ["", " (k.c.g.GroupCoordinator)", " (k.M) [executor-Heartbeat]", ' (k.M)"', '" logger=k.M']


@pytest.mark.parametrize(("release", "text", "expected"), LINES)
def test_each_releases_words_are_read_with_their_fields(release, text, expected):
    for end in ENDS:
        found = list(server_lines(text + end, AT_MS))
        assert [{name: getattr(line, name) for name in fields} for line, fields in
                zip(found, expected, strict=True)] == expected, end  # fmt: skip


@pytest.mark.parametrize(("release", "text"), [line[:2] for line in LINES if line[2]])
def test_the_table_has_the_words_under_their_release(release, text):
    spans = [span for _, span, pattern in PHRASES if re.search(pattern, text)]
    first, last = (tuple(map(int, name.split("."))) for name in spans[0].split("-"))
    assert first <= tuple(map(int, release.split("."))) <= last


def of_log(text):
    log = LogReader()
    lines = list(read_server_log([text], "Z", log))
    return lines, log


HEAD = "[2026-11-28 19:40:31,780] "


@pytest.mark.parametrize(
    "text",
    [
        "INFO [GroupCoordinator 0]: Member app-1 of g was removed by a vote (k.l.M)",
        "WARN [GroupCoordinator id=1] [GroupId g] Member app-1 has left of its own accord",
    ],
)
def test_a_coordinators_words_of_an_unknown_release_are_counted(text):
    lines, log = of_log(HEAD + text)
    assert (lines, log.understood, log.missed) == ([], 1, 1)
    assert text in log.example
    assert of_log(HEAD + text.replace("INFO", "DEBUG").replace("WARN", "TRACE"))[1].missed == 0


def test_a_coordinators_line_in_an_unknown_layout_is_counted():
    lines, log = of_log("19:40:31 I [GroupCoordinator 0]: Member a in group g has failed, removing")
    assert (lines, log.understood, log.missed) == ([], 0, 1)


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*server*.log.gz")), ids=str)
def test_nothing_about_groups_in_real_logs_is_unknown(path):
    log = LogReader()
    with open_lines(path) as lines:
        assert list(read_server_log(lines, "Z", log))
    assert not log.missed, log.example
