"""What a group coordinator writes into its server log, from Kafka 1.0 to 4.4.

``PHRASES`` has what a line says, the releases that write it, and its words, with the fields of a
``BrokerLogLine`` as named groups. A line about such a subject that is neither there nor in
``_ROUTINE`` comes from a release that the table does not have. Sources: GroupCoordinator and
GroupMetadataManager (Scala, 1.0 to 3.9); GroupMetadataManager, OffsetMetadataManager and
GroupCoordinatorShard (Java, from 3.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from coterie.insight.questions.server_log_lines import SERVER, BrokerLogLine

PREPARING, ASSIGNED = "preparing", "assigned"
EVICTED, LEFT, REPLACED, LOADED = "evicted", "left", "replaced", "loaded"
GROUP_DELETED, OFFSETS_DELETED = "group_deleted", "offsets_deleted"
TOPIC_DELETED, TOPIC_CREATED, EXPIRED = "topic_deleted", "topic_created", "expired"

# The logger and the thread may follow, and a quotation mark of CSV or logfmt.
_END = r"(?: \(\S+\))?(?: \[[^\]]*\])?(?:\"(?: \w+=.*)?)?$"
_OF = r"\[GroupId (?P<group>.+?)\](?:\[MemberId \S+\])? "
_INSTANCE = r"(?:Some\()?(?P<instance>[^\s)]+)\)?"
_BY_LEAVE = r" through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<detail>.*?))?"
_REASON = r"(?: \(reason: (?P<detail>.*?)\))?"
_TOOK = r"(?P<took>\d+) milliseconds"
PHRASES = (
    # Rebalances. Before 2.1 without the state and the reason.
    (
        PREPARING,
        "1.0-4.4",
        r"Preparing to rebalance group (?P<group>.+?)(?: in state \w+)? with old generation"
        rf" (?P<generation>\d+)(?: \(\S+-\d+\))?{_REASON}",
    ),
    (  # since 3.0 with the leader
        ASSIGNED,
        "1.0-4.4",
        r"Assignment received from leader (?:(?P<member>\S+) )?for group (?P<group>.+?)"
        r" for generation (?P<generation>\d+)(?:\. The group has .*)?",
    ),
    # Static members. Before 2.5 without the group.
    (
        REPLACED,
        "2.3-2.8",
        rf"Static member {_INSTANCE}(?: of group (?P<group>.+?))? with unknown member id rejoins,"
        r" (?P<detail>assigning new member id \S+, while old member(?: id)? (?P<member>\S+) will be"
        r" removed)",
    ),
    (
        REPLACED,
        "3.0-4.4",
        r"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id (?:re)?joins"
        r" group (?P<group>.+?) in \w+ state\. (?P<detail>Replacing previously mapped member"
        r" (?P<member>\S+) with this groupInstanceId)",
    ),
    (
        REPLACED,
        "3.8-4.4",
        rf"{_OF}Static member with (?:unknown member id and )?instance id (?P<instance>\S+)"
        r" re-joins the \w+ group(?: using the \w+ protocol)?\. (?P<detail>Created a new member"
        r" \S+ to replace the existing member (?P<member>\S+?))",
    ),
    # Members that are gone.
    (EVICTED, "1.0-4.4", r"Member (?P<member>\S+) in group (?P<group>.+?) has failed, removing it"
     r" from the group"),
    (
        EVICTED,
        "2.7-4.4",
        r"Group (?P<group>.+?) removed? (?:dynamic )?members who (?P<detail>haven't (?:joined|sent"
        r" their sync requests)): \w*[(\[](?P<members>.*?)[)\]]",
    ),
    (
        EVICTED,
        "3.7-4.4",
        rf"{_OF}(?:Streams m|M)ember (?P<member>\S+) fenced from the group"
        r" because (?P<detail>.*?)",
    ),
    (LEFT, "1.0-2.3", r"Member (?P<member>\S+) in group (?P<group>.+?) has left, removing it from"
     r" the group"),
    (
        LEFT,
        "2.4-2.8",
        r"Member\[group\.instance\.id .*?, member\.id (?P<member>\S+)\] in group (?P<group>.+?)"
        r" has left, removing it from the group",
    ),
    (
        LEFT,
        "3.0-3.9",
        r"Member MemberMetadata\(memberId=(?P<member>\S+?), .*\) has left group (?P<group>.+?)"
        + _BY_LEAVE,
    ),
    (
        LEFT,
        "3.7-4.4",
        r"\[Group(?:Id)? (?P<group>.+?)\] (?!Pending)(?:\w+ )?[Mm]ember (?P<member>\S+)"
        r" (?:with instance id \S+ )?has left group" + _BY_LEAVE,
    ),
    (
        LEFT,
        "3.7-4.4",
        rf"{_OF}(?:Static )?[Mm]ember (?P<member>\S+)"
        r" (?:with instance id \S+ )?left the \w+ group",
    ),
    # Groups and offsets that are gone. In 1.1 without the number of offsets.
    (
        GROUP_DELETED,
        "1.1-4.4",
        r"The following groups were deleted: (?P<groups>.+?)"
        r"(?:\. A total of \d+ offsets were removed)?",
    ),
    (
        OFFSETS_DELETED,
        "2.4-3.9",
        r"The following offsets of the group (?P<group>.+?) were deleted: (?P<partitions>.+)\."
        r" A total of [1-9]\d* offsets were removed",
    ),
    (
        TOPIC_DELETED,
        "2.0-3.9",
        r"Removed [1-9]\d* offsets associated with deleted partitions: (?P<partitions>.+?)",
    ),
    (  # the newest name topics, each with its id
        TOPIC_DELETED,
        "3.8-4.4",
        rf"Generated [1-9]\d* tombstone records in {_TOOK} while deleting offsets for"
        r" (?:partitions \[(?P<partitions>.*?)\]|topics \[(?P<named>.*)\])",
    ),
    (EXPIRED, "1.0-3.9", r"Group (?P<group>.+?) transitioned to Dead in generation -?\d+"),
    (EXPIRED, "1.0-3.9", rf"Removed [1-9]\d* expired offsets in {_TOOK}"),
    (
        EXPIRED,
        "3.7-4.4",
        rf"Generated [1-9]\d* tombstone records while cleaning up group metadata in {_TOOK}",
    ),
    (
        EXPIRED,
        "3.7-4.4",
        rf"{_OF}(?:Expiring offsets of partitions \(.*?\): (?P<partitions>"
        r".+?)|Expired offset for partition=(?P<one>.+?))",
    ),
    # The broker: a topic, and since when the coordinator knows its groups.
    (TOPIC_CREATED, "1.0-4.4", r"Created log for partition (?P<partitions>\S+-\d+) in .*"),
    (  # its generation is the partition of the offsets topic
        LOADED,
        "1.0-4.4",
        r"Finished loading (?:of|offsets and group) metadata from"
        r" __consumer_offsets-(?P<generation>\d+)(?: .*)?",
    ),
)  # fmt: skip
_PATTERNS = tuple(
    (what, re.compile(rf"(?P<text>{pattern}\.?){_END}")) for what, _, pattern in PHRASES
)
_SHARD = re.compile(r"topic=__consumer_offsets partition=(\d+)\]")
_DELETED_TOPIC = re.compile(r"name=([^\s,\]]+)")
OF_COORDINATOR = re.compile(
    r"\[Group(?:Coordinator|MetadataManager|Id| )"
    r"|[(\"](?:org\.apache\.)?kafka\.coordinator\.group\."
    r"|Created log for partition "
)
_SUBJECTS = re.compile(
    r"to rebalance group|has left|left (?:the|group)|has failed|fenced from|were deleted"
    r"|who haven't|[Ee]xpired offset|[Rr]emov(?:ed|ing) |tombstone records"
)
_ROUTINE = re.compile(  # words of lines that remove no member and no offset
    r"[Pp]ending |temporarily left|cached offsets|Not removing|(?:Removed|Generated) 0 "
    r"|total of 0 offsets|group type"
)


def server_lines(text: str, at_ms: int) -> Iterator[BrokerLogLine]:
    """Yield what the text of a line of the server log says."""
    for what, pattern in _PATTERNS:
        match = pattern.search(text)
        if match is not None:
            yield from _statements(what, match, at_ms)
            return


def is_unknown(text: str) -> bool:
    """Whether a coordinator's line that says nothing by ``PHRASES`` should say something."""
    return _SUBJECTS.search(text) is not None and _ROUTINE.search(text) is None


def _statements(what: str, match: re.Match[str], at_ms: int) -> Iterator[BrokerLogLine]:
    fields = match.groupdict()
    groups = fields["groups"].split(", ") if "groups" in fields else [fields.get("group") or ""]
    members = fields["members"].split(", ") if "members" in fields else [fields.get("member")]
    partitions = fields.get("partitions") or fields.get("one") or ""
    names = tuple(_DELETED_TOPIC.findall(fields.get("named") or ""))
    generation = fields.get("generation")
    after = None if generation is None else int(generation) + (what == PREPARING)
    shard = _SHARD.search(match.string, 0, match.start())
    if what in (GROUP_DELETED, OFFSETS_DELETED, TOPIC_DELETED, TOPIC_CREATED, EXPIRED):
        fields["detail"] = match["text"]
        if groups == [""] and shard is not None:
            after = int(shard[1])
    for group in groups:
        for member in members:
            yield BrokerLogLine(
                group,
                what,
                at_ms - int(fields.get("took") or 0),
                SERVER,
                after,
                member,
                detail=fields.get("detail"),
                instance_id=fields.get("instance"),
                topics=names or topics_of(partitions.split(", ")),
                until_ms=at_ms,
            )


def topics_of(partitions: Iterable[str]) -> tuple[str, ...]:
    """Return the topics of partitions that are named as ``orders-0``."""
    return tuple(dict.fromkeys(name.strip().rpartition("-")[0] for name in partitions if name))
