"""Why a generation began, as far as two records of a group show. Knows no broker's log.

A record names the members of a generation, not what they did. A member that is only in the later
record joined; one that is only in the earlier record left or was evicted: records do not tell
which. When a static member is replaced, its record keeps the client id and host of the first one
(GroupMetadata.replaceStaticMember), so causes have them, but texts do not. A cause is a dict with
the fields of ``CAUSE``; its ``what`` is a key of ``WHATS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.base.consumer_protocol import read_subscription
from coterie.errors import CorruptData
from coterie.insight.groups.metadata_changes import changes, leader_notes, unexplained
from coterie.insight.groups.unowned import assignments
from coterie.insight.records.partition_view import GroupHistory
from coterie.insight.tables import shortened

RECORDS = "records"
NAMES_CLIENTS = "request log"  # the only source that names the client of a request
CAUSE = {
    "what": "string",
    "member_id": "string",
    "client_id": "string",
    "client_host": "string",
    "group_instance_id": "string",
    "detail": "string",
    "source": "string",  # records, server log, request log
}
WHATS = {  # what -> text about some members, or about the group
    "present": "{} there already",
    "joined": "{} joined",
    "restarted": "{} came back under a new member id",
    "replaced": "static {} came back under a new member id",
    "left_or_evicted": "{} left or was evicted",
    "left": "{} left",
    "evicted": "{} evicted",
    "subscription_changed": "{} changed the subscription",
    "metadata_changed": "{} changed its metadata",
    "work_delayed": "connectors and tasks without a worker wait for",
    "assignment_failed": "the leader assigned nothing",
    "protocol_changed": "protocol changed",
    "leader_changed": "leader is now {}",
    "recreated": "the group was made anew",
    "gap": "generations without a record",
    "compacted": "generations without a record, compacted or never completed",
    "cooperative_step": "second step of a cooperative rebalance",
    "partitions_appeared": "partitions newly assigned",
    "restarted_left": "{} left and came back",
    "restarted_evicted": "{} was evicted and came back",
    "rejoined_first": "{} joined again",
    "upgraded": "upgraded",
    "downgraded": "downgraded",
    "carried_on": "{} carried on",
    "refused": "{} was refused",
    "committed": "{} committed from outside of the group",
    "static_left": "static {} left for now",
    "member_changed": "{} changed",
    "topics_changed": "metadata of its topics changed",
    "metadata_hashed": "its topics' metadata became a hash, as Kafka 4.1 stores it",
    "assignor_changed": "assignor changed",
    "share_initialized": "share partitions initialized",
    "regex_resolved": "topics of a regular expression found",
    "group_deleted": "the group was deleted",
    "offsets_deleted": "offsets were deleted",
    "topic_deleted": "the topic was deleted",
    "topic_created": "the topic was created again",
    "expired": "offsets expired",
    "removed": "offsets were deleted, or expired",
    "rejoined": "the same members joined again; the records do not tell why",
}
QUIET = {  # causes that do not explain a rebalance by themselves
    "present",
    "leader_changed",
    "gap",
    "compacted",
    "recreated",
}
RESTARTED = (
    "restarted",
    "restarted_left",
    "restarted_evicted",
)  # their detail: the former member id
State = dict[str, Any]
Cause = dict[str, Any]
Partitions = set[tuple[str, int]]


def cause(
    history: GroupHistory, what: str, member_id: str | None = None, detail: str | None = None
) -> Cause:
    client = history.clients.get(member_id or "")
    return {
        "what": what,
        "member_id": member_id,
        "client_id": client and client.client_id,
        "client_host": client and client.client_host,
        "group_instance_id": client and client.group_instance_id,
        "detail": detail,
        "source": RECORDS,
    }


def causes_of(
    history: GroupHistory, index: int, state: State, before: State | None, older: State | None
) -> list[Cause]:
    """Return the causes of a record: the changes since the record before it.

    ``state`` is the decoded group as of this record; ``before`` and ``older`` as of the two before
    it, None: a tombstone, or no record.
    """
    row = history.generations[index]
    if before is None:
        is_first = index == 0 and row["generation"] > 1
        what = "present" if is_first and not history.from_start else "joined"
        causes = [cause(history, what, member) for member in row["joined"]]
        if is_first and history.from_start:
            causes.append(cause(history, "gap", detail=str(row["generation"] - 1)))
        return causes
    causes = list(members_of(history, row))
    causes += _subscriptions(history, row, before, state)
    if row["protocol_changed"] and before["protocol"] and state["protocol"]:
        detail = f"{before['protocol']} to {state['protocol']}"
        causes.append(cause(history, "protocol_changed", detail=detail))
    if row["leader_changed"] and before["leader"] and state["leader"]:
        causes.append(cause(history, "leader_changed", state["leader"]))
    gap = row["generation"] - row["previous_generation"] - 1
    if gap > 0:
        causes.append(cause(history, "gap", detail=str(gap)))
    if row["generation"] < row["previous_generation"]:
        causes.append(cause(history, "recreated"))
    if all(known["what"] in QUIET for known in causes) and state["members"]:
        causes.append(_same_members(history, state, before, older))
    causes += [cause(history, what, detail=text) for what, text in leader_notes(state)]
    return causes


def members_of(history: GroupHistory, row: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield joins and departures. A client that left and rejoined from one host has restarted."""
    departed: dict[Any, list[str]] = {}
    for member in row["left"]:
        client = history.clients.get(member)
        departed.setdefault(client and client[:2], []).append(member)
    for _, old, new in row["replaced"]:
        yield cause(history, "replaced", new, old)
    for member in row["joined"]:
        client = history.clients.get(member)
        former = departed.get(client and client[:2])
        if former and client is not None and client.group_instance_id is None:
            yield cause(history, "restarted", member, former.pop(0))
        else:
            yield cause(history, "joined", member)
    for members in departed.values():
        for member in members:
            yield cause(history, "left_or_evicted", member)


def _subscriptions(
    history: GroupHistory, row: Mapping[str, Any], before: State, now: State
) -> Iterator[Cause]:
    """Yield changes of what members send when they join, as far as they explain a rebalance."""
    old_id = {new: old for _, old, new in row["replaced"]}
    old = {member["member_id"]: member["subscription"] for member in before["members"]}
    new = {member["member_id"]: member["subscription"] for member in now["members"]}
    for member in row["subscription_changed"]:
        change = changes(now["protocol_type"], old[old_id.get(member, member)], new[member])
        if change is not None:
            what, text = change
            yield cause(history, what, member, text)


def _same_members(history: GroupHistory, state: State, before: State, older: State | None) -> Cause:
    """Return why the same members rebalanced, as far as their assignments show."""
    assigned_now, assigned_before = assigned(state), assigned(before)
    if assigned_now is not None and assigned_before is not None:
        added = assigned_now - assigned_before
        if "cooperative" in (state["protocol"] or "") and added:
            earlier = assigned(older) if older is not None else None
            if earlier is not None and added <= earlier:
                return cause(history, "cooperative_step", detail=partition_text(added))
        if added and assigned_before:
            return cause(history, "partitions_appeared", detail=partition_text(added))
    return cause(history, "rejoined", detail=_renewed(before, state))


def _renewed(before: State, now: State) -> str | None:
    """Return what members renewed in their subscriptions without changing topics; None: nothing."""
    old = {member["member_id"]: member["subscription"] for member in before["members"]}
    renewed: dict[str, None] = {}
    if now["protocol_type"] != "consumer":
        return None
    for member in now["members"]:
        data = old.get(member["member_id"])
        if data is not None and data != member["subscription"]:
            try:
                subscriptions = read_subscription(data), read_subscription(member["subscription"])
            except CorruptData:
                continue
            renewed |= dict.fromkeys(unexplained(*subscriptions))
    return f"{' and '.join(renewed)} changed" if renewed else None


def assigned(state: State) -> Partitions | None:
    """Return all assigned partitions; None: an assignment is unreadable."""
    by_member = assignments(state)
    return None if by_member is None else set().union(*by_member.values())


def partition_text(partitions: Iterable[tuple[str, int]]) -> str:
    """Format partitions as Kafka's tools do: ``clicks:0,1 orders:2``."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def plural(text: str) -> str:
    """Return the plural of a text of ``WHATS``."""
    text = text.replace("changed its metadata", "changed their metadata")
    return text.replace(" was ", " were ").replace("a new member id", "new member ids")


def who(cause: Cause) -> str:
    """Return a member's name: its instance id or client id, and its host if that is certain."""
    name = str(cause["group_instance_id"] or cause["client_id"] or cause["member_id"] or "a member")
    if cause["what"] == "refused" and cause["group_instance_id"] and cause["client_id"]:
        # The instance id may belong to another member, so the client id comes first.
        name = f"{cause['client_id']} as static {cause['group_instance_id']}"
    if cause["what"] == "replaced" and cause["source"] == NAMES_CLIENTS:
        name += f": {cause['client_id']}"
    return shortened(name) + hosts_in_words([host_of(cause)])


def host_of(cause: Cause) -> str | None:
    """Return a member's host; None: not known, as after a static member was replaced."""
    certain = not cause["group_instance_id"] or cause["source"] == NAMES_CLIENTS
    host: str | None = cause["client_host"]
    return host if certain or cause["what"] in ("joined", "present") else None


def client_of(cause: Cause) -> str:
    """Return the name that a client's causes are grouped by."""
    return shortened(str(cause["group_instance_id"])) if cause["group_instance_id"] else who(cause)


def client_text(client_id: str | None, host: str | None) -> str:
    return shortened(client_id or "a client") + hosts_in_words([host])


def hosts_in_words(hosts: Iterable[str | None]) -> str:
    """Return hosts in parentheses, to follow a name; empty if any is unknown."""
    distinct = dict.fromkeys(hosts)
    known = [host.removeprefix("/") for host in distinct if host]
    return f" ({', '.join(known)})" if known and len(known) == len(distinct) else ""


def in_words(causes: Iterable[Cause], named: int = 3) -> str:
    """Return causes as one line with at most ``named`` member names for each kind."""
    kinds: dict[tuple[str, str], list[Cause]] = {}
    for cause in causes:
        kinds.setdefault((cause["what"], cause["source"]), []).append(cause)
    parts = []
    for (what, source), alike in kinds.items():
        names = [who(cause) for cause in alike[:named]]
        if len(alike) > named:
            names.append(f"{len(alike) - named} more")
        template = WHATS.get(what, what)
        text = (template if len(alike) == 1 else plural(template)).format(", ".join(names))
        details = list(dict.fromkeys(cause["detail"] for cause in alike[:named] if cause["detail"]))
        if details and what not in ("replaced", *RESTARTED):
            text += f": {', '.join(details)}"
        parts.append(text if source == RECORDS else f"{text} [{source}]")
    return "; ".join(parts)
