"""Group ids that several applications share, recognised by protocol or by subscribed topics.

Members of one application subscribe to the same topics, or to more of them while a new version is
rolled out. Members without a common topic belong to two applications. If the assignors differ too,
the coordinator refuses one application, which only a request log shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from coterie.base.consumer_protocol import read_subscription
from coterie.errors import CorruptData
from coterie.insight.groups import protocol_switches
from coterie.insight.groups.causes import hosts_in_words
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.group_replay import replay
from coterie.insight.records.partition_view import GroupHistory, PartitionView
from coterie.insight.tables import shortened
from coterie.state.consumer_protocol_groups import MEMBER_KEYS, TYPE_OF

NEW_PROTOCOL = "(new protocol)"
NAMED = 3  # clients, topics
CLIENT = {"client_id": "string", "client_host": "string", "topics": ["string"]}
Row = dict[str, Any]
RecordItem = TypeVar("RecordItem", bound=tuple[Any, ...])


class Subscriber(NamedTuple):
    """A member's client and its subscribed topics; ``topics`` None: unreadable."""

    client_id: str | None
    client_host: str | None
    topics: frozenset[str] | None

    def as_row(self) -> Row:
        """Return the fields of ``CLIENT``."""
        topics = None if self.topics is None else sorted(self.topics)
        return {"client_id": self.client_id, "client_host": self.client_host, "topics": topics}


class ProtocolRecord(NamedTuple):
    """A group's record with its protocol; ``protocol`` None: a deletion."""

    row: Row
    protocol: str | None
    history: GroupHistory | None  # None: of a newer protocol
    number: int  # of the record in the history

    def subscribers(self) -> list[Subscriber]:
        """Return the classic group's clients as of the record; none for a newer protocol."""
        state = None if self.history is None else self.history.state(self.number)
        return [] if state is None else list(subscribers_of(state))


class SharedGroupId(NamedTuple):
    """A shared group id: evidence as text, clients, the first record and the one before it."""

    group: str
    detail: str
    clients: list[Subscriber]
    row: Row
    before: Row | None
    records: int


def subscribers_of(state: Mapping[str, Any]) -> Iterator[Subscriber]:
    """Yield the distinct clients of a classic group, with their topics."""
    distinct: dict[Subscriber, None] = {}
    for member in state["members"]:
        topics = None
        if state["protocol_type"] == "consumer":
            try:
                topics = frozenset(read_subscription(member["subscription"]).topics)
            except CorruptData:
                topics = None
        distinct[Subscriber(member["client_id"], member["client_host"], topics)] = None
    yield from distinct


def disjoint(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Return the subscribers whose topics are disjoint from some other subscriber's topics."""
    with_topics = [subscriber for subscriber in subscribers if subscriber.topics]
    topic_sets = {subscriber.topics for subscriber in with_topics if subscriber.topics}
    disjoint_sets = {
        topics for topics in topic_sets if any(not topics & other for other in topic_sets)
    }
    return [subscriber for subscriber in with_topics if subscriber.topics in disjoint_sets]


def in_words(subscribers: Iterable[Subscriber]) -> str:
    """Return clients by their topics, as text, with at most ``NAMED`` names for each."""
    names_by_topics: dict[frozenset[str] | None, list[str]] = {}
    for subscriber in subscribers:
        name = shortened(subscriber.client_id or "a client") + hosts_in_words(
            [subscriber.client_host]
        )
        names_by_topics.setdefault(subscriber.topics, []).append(name)
    parts = []
    for topics, names in names_by_topics.items():
        reading = f" reading {few(sorted(topics))}" if topics else ""
        parts.append(few(dict.fromkeys(names)) + reading)
    return "; ".join(parts)


def few(names: Iterable[str]) -> str:
    """Return the first ``NAMED`` names in a list, and how many more there are."""
    shown = [shortened(name) for name in names]
    more = [f"{len(shown) - NAMED} more"] if len(shown) > NAMED else []
    return ", ".join([*shown[:NAMED], *more])


def since_complete(view: PartitionView, items: list[RecordItem]) -> list[RecordItem]:
    """Return the items of the time for which the log is complete, and the last item before it.

    Each item begins with its record's row; the items are in log order.
    """
    complete = [item for item in items if view.is_complete_at(item[0]["timestamp"])]
    return [*items[: len(items) - len(complete)][-1:], *complete]


def two_applications(view: PartitionView) -> Iterator[SharedGroupId]:
    """Yield each group that has members without a common topic at the same time."""
    newer = view.newer_by_group
    for group in dict.fromkeys([*view.histories, *newer]):
        history = view.histories.get(group)
        states = [] if history is None else list(classic_subscribers(history))
        states += newer_subscribers(newer.get(group, ()))
        states = since_complete(view, states)
        shared = [
            (row, before, apart)
            for row, before, subscribers in states
            if (apart := disjoint(subscribers))
        ]
        if shared:
            row, before, _ = shared[0]
            clients = list(
                dict.fromkeys(subscriber for *_, apart in shared for subscriber in apart)
            )
            yield SharedGroupId(group, in_words(clients), clients, row, before, len(shared))


def classic_subscribers(
    history: GroupHistory,
) -> Iterator[tuple[Row, Row | None, list[Subscriber]]]:
    """Yield each classic record with new members or subscriptions, and the record before it."""
    before = None
    for index, row in enumerate(history.generations):
        if row["joined"] or row["replaced"] or row["subscription_changed"]:
            yield row, before, ProtocolRecord(row, None, history, index).subscribers()
        before = row


def newer_subscribers(
    records: Iterable[GroupRecord],
) -> Iterator[tuple[Row, Row | None, list[Subscriber]]]:
    """Yield each member record of a newer group, the record before it, and all members then."""
    members: dict[str, Subscriber] = {}
    before = replayed = None
    for record, name, group in replay(records):
        if group is not replayed:  # in another partition of the topic, without its members
            members, replayed = {}, group
        if record.version in MEMBER_KEYS and name is not None:
            members.pop(name, None)
            row = None if record.value is None else group.member(record.version, name)
            if row is not None:
                topics = frozenset(row.get("subscribed_topics", ()))
                members[name] = Subscriber(row["client_id"], row["client_host"], topics)
                yield record._asdict(), before, list(dict.fromkeys(members.values()))
            before = record._asdict()


def several_protocols(view: PartitionView) -> Iterator[SharedGroupId]:
    """Yield each group whose records have several protocols, with the first differing record.

    A classic group that was deleted and created again starts afresh.
    """
    by_group: dict[str, list[ProtocolRecord]] = {}
    for history in view.histories.values():
        for index, row in enumerate(history.generations):
            if row["tombstone"] or row["protocol"] is not None:
                name = None if row["tombstone"] else f"{row['protocol_type']}/{row['protocol']}"
                by_group.setdefault(history.group, []).append(
                    ProtocolRecord(row, name, history, index)
                )
    for record in view.newer_records:
        type_name = TYPE_OF.get(record.version)
        if type_name is not None and record.value is not None:
            of_newer = ProtocolRecord(record._asdict(), f"{type_name} {NEW_PROTOCOL}", None, 0)
            by_group.setdefault(record.group, []).append(of_newer)
    newer = view.newer_by_group
    for group, records in by_group.items():
        records.sort(key=lambda item: int(item.row["log_offset"]))
        records = since_complete(view, records)
        group_history = view.histories.get(group)
        changes = protocol_switches.rows_of(
            group_history, protocol_switches.switches(group_history, newer.get(group, ()))
        )
        switched = _changed(group, records, changes)
        yield from [switched] if switched else _protocols_of(group, records)


def _changed(
    group: str, records: list[ProtocolRecord], switch_rows: list[Row]
) -> SharedGroupId | None:
    """Return the finding for a group with several protocols only because of its switches."""
    switch_rows = sorted(switch_rows, key=lambda row: int(row["log_offset"]))
    places = [int(row["log_offset"]) for row in switch_rows]
    protocols: dict[int, set[str]] = {}
    for item in records:
        if item.protocol is not None:
            # A downgrade's record has the classic protocol already.
            protocols.setdefault(bisect_right(places, int(item.row["log_offset"])), set()).add(
                item.protocol
            )
    if not switch_rows or any(len(names) > 1 for names in protocols.values()):
        return None
    text = ", then ".join(
        row["causes"][0]["what"] + " from " + row["causes"][0]["detail"] for row in switch_rows
    )
    # Only members that carried on show that it is the same application.
    whose = "one application" if any(map(has_carried_on, switch_rows)) else "a group"
    detail = f"{whose} that changed its protocol: {text}"
    return SharedGroupId(group, detail, [], switch_rows[0], None, len(switch_rows))


def has_carried_on(row: Row) -> bool:
    """Whether members carried on when their group changed its protocol."""
    return any(cause["what"] == "carried_on" for cause in row["causes"])


def _protocols_of(group: str, records: list[ProtocolRecord]) -> Iterator[SharedGroupId]:
    first_records: dict[str, ProtocolRecord] = {}
    deleted = False
    other: tuple[Row, Row | None] | None = None
    before: Row | None = None
    for record in records:
        if record.protocol is None:
            deleted = True
            continue
        if deleted and not record.protocol.endswith(NEW_PROTOCOL) and len(first_records) < 2:
            first_records, before = {}, None
        deleted = False
        if record.protocol not in first_records:
            first_records[record.protocol] = record
            if len(first_records) == 2:
                other = record.row, before
        before = record.row
    if other is not None:
        users = {name: record.subscribers() for name, record in first_records.items()}
        names = [
            f"{name} by {in_words(clients)}" if clients else name for name, clients in users.items()
        ]
        clients = list(dict.fromkeys(client for clients in users.values() for client in clients))
        yield SharedGroupId(group, ", then ".join(names), clients, *other, len(names))
