"""Why a generation began, as far as two records of a group tell. Knows no log of a broker.

A record names the members of a generation, not what they did. Who is in one and not in the other
joined, or left or was evicted: the records do not tell which. A static member that takes over keeps
the client id and host of the first one in its record (GroupMetadata.replaceStaticMember): so they
stand in causes, but not in words. A cause is a dict of the fields of ``CAUSE``; ``what`` is one of
``WHATS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.errors import CorruptData
from coterie.insight.records.partition_view import Life
from coterie.insight.render.tables import shortened
from coterie.log.consumer_protocol import owned_partitions, read_subscription

RECORDS = "records"
NAMES_CLIENTS = "request log"  # the source that knows whose request it was
CAUSE = {
    "what": "string",
    "member_id": "string",
    "client_id": "string",
    "client_host": "string",
    "group_instance_id": "string",
    "detail": "string",
    "source": "string",  # records, server log, request log
}
WHATS = {  # what -> how it is said of some members, or of the group
    "present": "{} there already",
    "joined": "{} joined",
    "restarted": "{} came back under a new member id",
    "replaced": "static {} came back under a new member id",
    "left_or_evicted": "{} left or was evicted",
    "left": "{} left",
    "evicted": "{} evicted",
    "subscription_changed": "{} changed the subscription",
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
    "static_left": "static {} left for now",
    "member_changed": "{} changed",
    "topics_changed": "partitions of its topics changed",
    "regex_resolved": "topics of a regular expression found",
    "rejoined": "the same members joined again; the records do not tell why",
}
QUIET = {
    "present",
    "leader_changed",
    "gap",
    "compacted",
    "recreated",
}  # beside these, something else happened
RESTARTED = ("restarted", "restarted_left", "restarted_evicted")  # detail: the member id before
State = dict[str, Any]
Cause = dict[str, Any]
Partitions = set[tuple[str, int]]


def cause(life: Life, what: str, member_id: str | None = None, detail: str | None = None) -> Cause:
    """Return a cause that the records show."""
    who = life.clients.get(member_id or "")
    return {
        "what": what,
        "member_id": member_id,
        "client_id": who and who.client_id,
        "client_host": who and who.client_host,
        "group_instance_id": who and who.group_instance_id,
        "detail": detail,
        "source": RECORDS,
    }


def causes_of(life: Life, index: int, states: Mapping[int, State | None]) -> list[Cause]:
    """Return what changed from the record before, and what follows from it.

    ``states`` holds the decoded group as of this record (not a tombstone) and the two before it.
    """
    row, now, before = life.generations[index], states[index], states.get(index - 1)
    assert now is not None
    if before is None:
        begins = index == 0 and row["generation"] > 1
        what = "present" if begins else "joined"
        return [cause(life, what, member) for member in row["joined"]]
    found = list(members_of(life, row))
    found += _subscriptions(life, row, before, now)
    if row["protocol_changed"] and before["protocol"] and now["protocol"]:
        detail = f"{before['protocol']} to {now['protocol']}"
        found.append(cause(life, "protocol_changed", detail=detail))
    if row["leader_changed"] and before["leader"] and now["leader"]:
        found.append(cause(life, "leader_changed", now["leader"]))
    missing = row["generation"] - row["previous_generation"] - 1
    if missing > 0:
        found.append(cause(life, "gap", detail=str(missing)))
    if row["generation"] < row["previous_generation"]:
        found.append(cause(life, "recreated"))
    if all(one["what"] in QUIET for one in found) and now["members"]:
        found.append(_same_members(life, now, before, states.get(index - 2)))
    return found


def members_of(life: Life, row: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield who came and went. One client that went and came, from one host, restarted."""
    gone: dict[Any, list[str]] = {}
    for member in row["left"]:
        who = life.clients.get(member)
        gone.setdefault(who and who[:2], []).append(member)
    for _, old, new in row["replaced"]:
        yield cause(life, "replaced", new, old)
    for member in row["joined"]:
        who = life.clients.get(member)
        same = gone.get(who and who[:2])
        if same and who is not None and who.group_instance_id is None:
            yield cause(life, "restarted", member, same.pop(0))
        else:
            yield cause(life, "joined", member)
    for members in gone.values():
        for member in members:
            yield cause(life, "left_or_evicted", member)


def _subscriptions(
    life: Life, row: Mapping[str, Any], before: State, now: State
) -> Iterator[Cause]:
    """Yield whose topics changed; other bytes of a subscription change with each assignment."""
    old_id = {new: old for _, old, new in row["replaced"]}
    old = {member["member_id"]: member["subscription"] for member in before["members"]}
    new = {member["member_id"]: member["subscription"] for member in now["members"]}
    for member in row["subscription_changed"]:
        topics = [_topics(old[old_id.get(member, member)]), _topics(new[member])]
        if now["protocol_type"] != "consumer" or None in topics:
            yield cause(life, "subscription_changed", member, "its metadata changed")
        elif topics[0] != topics[1]:
            changes = [f"+{topic}" for topic in sorted(topics[1] - topics[0])]
            changes += [f"-{topic}" for topic in sorted(topics[0] - topics[1])]
            yield cause(life, "subscription_changed", member, " ".join(changes))


def _topics(subscription: bytes) -> Any:
    """Return the topics of a subscription; None: it cannot be read."""
    try:
        return set(read_subscription(subscription).topics)
    except CorruptData:
        return None


def _same_members(life: Life, now: State, before: State, older: State | None) -> Cause:
    """Return why the same members rebalanced, as far as their assignments tell."""
    given, had = assigned(now), assigned(before)
    if given is not None and had is not None:
        fresh = given - had
        if "cooperative" in (now["protocol"] or "") and fresh:
            earlier = assigned(older) if older is not None else None
            if earlier is not None and fresh <= earlier:
                return cause(life, "cooperative_step", detail=partition_text(fresh))
        if fresh and had:
            return cause(life, "partitions_appeared", detail=partition_text(fresh))
    return cause(life, "rejoined")


def assigned(state: State) -> Partitions | None:
    """Return all partitions that members have; None: an assignment cannot be read."""
    if state["protocol_type"] != "consumer":
        return None
    found: Partitions = set()
    try:
        for member in state["members"]:
            for topic, numbers in owned_partitions(member["assignment"]).items():
                found.update((topic, number) for number in numbers)
    except CorruptData:
        return None
    return found


def partition_text(partitions: Iterable[tuple[str, int]]) -> str:
    """Return partitions as Kafka's tools write them: ``clicks:0,1 orders:2``."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def plural(said: str) -> str:
    """Return what is said of one member as it is said of several."""
    return said.replace(" was ", " were ").replace("a new member id", "new member ids")


def who(of: Cause) -> str:
    """Return a member as people know it: its instance id, or client id, and host if it is sure."""
    name = str(of["group_instance_id"] or of["client_id"] or of["member_id"] or "a member")
    if of["what"] == "refused" and of["group_instance_id"] and of["client_id"]:
        # The id may be another's, who has nothing to do with it.
        name = f"{of['client_id']} as static {of['group_instance_id']}"
    if of["what"] == "replaced" and of["source"] == NAMES_CLIENTS:
        name += f": {of['client_id']}"
    return shortened(name) + hosts_in_words([host_of(of)])


def host_of(of: Cause) -> str | None:
    """Return a member's host; None: not known, as after a static member was taken over."""
    sure = not of["group_instance_id"] or of["source"] == NAMES_CLIENTS
    host: str | None = of["client_host"]
    return host if sure or of["what"] in ("joined", "present") else None


def client_of(of: Cause) -> str:
    """Return the name under which all that a client did is brought together."""
    return shortened(str(of["group_instance_id"])) if of["group_instance_id"] else who(of)


def hosts_in_words(hosts: Iterable[str | None]) -> str:
    """Return hosts behind a name, in brackets; nothing where one is not known."""
    found = dict.fromkeys(hosts)
    known = [host.removeprefix("/") for host in found if host]
    return f" ({', '.join(known)})" if known and len(known) == len(found) else ""


def in_words(causes: Iterable[Cause], named: int = 3) -> str:
    """Return causes in one line, at most ``named`` members of each kind by name."""
    kinds: dict[tuple[str, str], list[Cause]] = {}
    for one in causes:
        kinds.setdefault((one["what"], one["source"]), []).append(one)
    parts = []
    for (what, source), alike in kinds.items():
        names = [who(one) for one in alike[:named]]
        if len(alike) > named:
            names.append(f"{len(alike) - named} more")
        said = WHATS.get(what, what)
        text = (said if len(alike) == 1 else plural(said)).format(", ".join(names))
        details = list(dict.fromkeys(one["detail"] for one in alike[:named] if one["detail"]))
        if details and what not in ("replaced", *RESTARTED):
            text += f": {', '.join(details)}"
        parts.append(text if source == RECORDS else f"{text} [{source}]")
    return "; ".join(parts)
