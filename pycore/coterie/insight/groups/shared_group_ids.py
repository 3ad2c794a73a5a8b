"""One group id that several applications share: told apart by protocol, or by what they read.

Members of one application subscribe to the same topics, or to more of them while a new version is
rolled out. Members whose topics have nothing in common are of two. Where assignors differ as well,
a coordinator refuses one of them, which no record tells (a request log does).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from coterie.errors import CorruptData
from coterie.insight.groups import epochs, protocol_switches
from coterie.insight.groups.causes import hosts_in_words
from coterie.insight.records.partition_view import Life, PartitionView
from coterie.insight.render.tables import shortened
from coterie.log.consumer_protocol import read_subscription
from coterie.state.consumer_protocol_groups import TYPE_OF

NEW_PROTOCOL = "(new protocol)"
NAMED = 3  # clients, topics
CLIENT = {"client_id": "string", "client_host": "string", "topics": ["string"]}
Row = dict[str, Any]
OfRecord = TypeVar("OfRecord", bound=tuple[Any, ...])


class Reader(NamedTuple):
    """A member's client, and the topics that it subscribes to; None: they cannot be read."""

    client_id: str | None
    client_host: str | None
    topics: frozenset[str] | None

    def as_row(self) -> Row:
        """Return the fields of ``CLIENT``."""
        topics = None if self.topics is None else sorted(self.topics)
        return {"client_id": self.client_id, "client_host": self.client_host, "topics": topics}


class Seen(NamedTuple):
    """A record of a group: its row, its protocol (None: a deletion), its members as readers."""

    row: Row
    protocol: str | None
    life: Life | None = None
    number: int = 0  # of the record in its life

    def readers(self) -> list[Reader]:
        """Return the clients of the group as of the record; none of a newer protocol."""
        state = None if self.life is None else self.life.state(self.number)
        return [] if state is None else list(readers_of(state))


class Shared(NamedTuple):
    """What shows that a group id is shared: in words, its clients, records (first and before)."""

    group: str
    detail: str
    clients: list[Reader]
    row: Row
    before: Row | None
    records: int


def readers_of(state: Mapping[str, Any]) -> Iterator[Reader]:
    """Yield the clients of a classic group, each once for what it reads."""
    found: dict[Reader, None] = {}
    for member in state["members"]:
        topics = None
        if state["protocol_type"] == "consumer":
            try:
                topics = frozenset(read_subscription(member["subscription"]).topics)
            except CorruptData:
                topics = None
        found[Reader(member["client_id"], member["client_host"], topics)] = None
    yield from found


def apart(readers: Iterable[Reader]) -> list[Reader]:
    """Return those that have topics, none of them in common with some other's topics."""
    found = [reader for reader in readers if reader.topics]
    sets = {reader.topics for reader in found if reader.topics}
    lone = {one for one in sets if any(not one & other for other in sets)}
    return [reader for reader in found if reader.topics in lone]


def in_words(readers: Iterable[Reader]) -> str:
    """Return clients by what they read, at most ``NAMED`` of a kind by name."""
    kinds: dict[frozenset[str] | None, list[str]] = {}
    for one in readers:
        name = shortened(one.client_id or "a client") + hosts_in_words([one.client_host])
        kinds.setdefault(one.topics, []).append(name)
    parts = []
    for topics, names in kinds.items():
        reading = f" reading {few(sorted(topics))}" if topics else ""
        parts.append(few(dict.fromkeys(names)) + reading)
    return "; ".join(parts)


def few(names: Iterable[str]) -> str:
    """Return names in a row, the first ``NAMED`` of them."""
    found = [shortened(name) for name in names]
    more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
    return ", ".join([*found[:NAMED], *more])


def since_whole(view: PartitionView, told: list[OfRecord]) -> list[OfRecord]:
    """Return what is told since compaction took nothing, and the last of before: how it was then.

    Each begins with its record, in order of the log.
    """
    late = [one for one in told if view.is_whole_at(one[0]["timestamp"])]
    return [*told[: len(told) - len(late)][-1:], *late]


def two_applications(view: PartitionView) -> Iterator[Shared]:
    """Yield each group with members at one time whose topics have nothing in common."""
    newer = view.newer_records.by_group()
    for group in dict.fromkeys([*view.lives, *newer]):
        life = view.lives.get(group)
        told = [] if life is None else list(classic_readers(life))
        told += newer_readers(newer.get(group, ()))
        told = since_whole(view, told)
        showing = [(row, before, found) for row, before, all_ in told if (found := apart(all_))]
        if showing:
            row, before, _ = showing[0]
            clients = list(dict.fromkeys(one for *_, found in showing for one in found))
            yield Shared(group, in_words(clients), clients, row, before, len(showing))


def classic_readers(life: Life) -> Iterator[tuple[Row, Row | None, list[Reader]]]:
    """Yield each record of a classic group that may change who reads what, and the one before."""
    before = None
    for index, row in enumerate(life.generations):
        if row["joined"] or row["replaced"] or row["subscription_changed"]:
            yield row, before, Seen(row, None, life, index).readers()
        before = row


def newer_readers(records: Iterable[Any]) -> Iterator[tuple[Row, Row | None, list[Reader]]]:
    """Yield each record of a newer group's member, with all members as of then."""
    members: dict[str, Reader] = {}
    before = None
    for record in records:
        if record.version in epochs.MEMBER and epochs.is_readable(record):
            key, value = epochs.decoded(record)
            members.pop(key["data"]["memberId"], None)
            if value is not None:
                topics = frozenset(value.get("subscribedTopicNames") or ())
                reader = Reader(value.get("clientId"), value.get("clientHost"), topics)
                members[key["data"]["memberId"]] = reader
                yield record._asdict(), before, list(dict.fromkeys(members.values()))
            before = record._asdict()


def several_protocols(view: PartitionView) -> Iterator[Shared]:
    """Yield each group whose records name several protocols: the first that is another.

    A classic group that was deleted and came back as one begins anew.
    """
    told: dict[str, list[Seen]] = {}
    for life in view.lives.values():
        for index, row in enumerate(life.generations):
            if row["tombstone"] or row["protocol"] is not None:
                name = None if row["tombstone"] else f"{row['protocol_type']}/{row['protocol']}"
                told.setdefault(life.group, []).append(Seen(row, name, life, index))
    for record in view.newer_records:
        kind = TYPE_OF.get(record.version)
        if kind is not None and record.value is not None:
            one = Seen(record._asdict(), f"{kind} {NEW_PROTOCOL}")
            told.setdefault(record.group, []).append(one)
    newer = view.newer_records.by_group()
    for group, seen in told.items():
        seen.sort(key=lambda one: int(one.row["log_offset"]))
        seen = since_whole(view, seen)
        theirs = view.lives.get(group)
        changes = protocol_switches.rows_of(
            theirs, protocol_switches.switches(theirs, newer.get(group, ()))
        )
        changed = _changed(group, seen, changes)
        yield from [changed] if changed else _protocols_of(group, seen)


def _changed(group: str, seen: list[Seen], changes: list[Row]) -> Shared | None:
    """Return what a group is that was upgraded or downgraded, and else has one protocol a time."""
    changes = sorted(changes, key=lambda row: int(row["log_offset"]))
    places = [int(row["log_offset"]) for row in changes]
    used: dict[int, set[str]] = {}
    for one in seen:
        if one.protocol is not None:
            # A downgrade's own record is the first of what follows.
            used.setdefault(bisect_right(places, int(one.row["log_offset"])), set()).add(
                one.protocol
            )
    if not changes or any(len(names) > 1 for names in used.values()):
        return None
    told = ", then ".join(
        row["causes"][0]["what"] + " from " + row["causes"][0]["detail"] for row in changes
    )
    # Whether what came after is the application of before, members tell that carried on.
    whose = "one application" if any(map(has_carried_on, changes)) else "a group"
    detail = f"{whose} that changed its protocol: {told}"
    return Shared(group, detail, [], changes[0], None, len(changes))


def has_carried_on(change: Row) -> bool:
    """Whether members went on when their group changed its protocol."""
    return any(cause["what"] == "carried_on" for cause in change["causes"])


def _protocols_of(group: str, seen: list[Seen]) -> Iterator[Shared]:
    first: dict[str, Seen] = {}
    deleted = False
    other: tuple[Row, Row | None] | None = None
    before: Row | None = None
    for one in seen:
        if one.protocol is None:
            deleted = True
            continue
        if deleted and not one.protocol.endswith(NEW_PROTOCOL) and len(first) < 2:
            first, before = {}, None
        deleted = False
        if one.protocol not in first:
            first[one.protocol] = one
            if len(first) == 2:
                other = one.row, before
        before = one.row
    if other is not None:
        users = {name: one.readers() for name, one in first.items()}
        names = [f"{name} by {in_words(used)}" if used else name for name, used in users.items()]
        clients = list(dict.fromkeys(one for used in users.values() for one in used))
        yield Shared(group, ", then ".join(names), clients, *other, len(names))
