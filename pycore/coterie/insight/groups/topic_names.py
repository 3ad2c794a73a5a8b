"""The names of topic ids, as far as the log of a partition has them: assignments have ids only."""

from __future__ import annotations

from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.group_replay import replay
from coterie.insight.records.partition_view import PartitionView
from coterie.state.consumer_protocol_groups import TARGET_KEYS, TYPE_OF, settle_names


def topic_names(view: PartitionView) -> dict[str, str]:
    """Return the names of topic ids that occur in a partition's newer groups, found once."""
    if "topic_names" not in view.memo:
        view.memo["topic_names"] = _names_in(view)
    found: dict[str, str] = view.memo["topic_names"]
    return found


def _names_in(view: PartitionView) -> dict[str, str]:
    names = {
        topic["topic_id"]: topic["topic"]
        for row in view.group_rows.values()
        for member in row["members"]
        for kind in ("current_assignment", "target_assignment")
        for topic in member.get(kind, ())
        if topic["topic"] is not None
    }
    learn_names(view.newer_records, names)
    return names


def learn_names(records: GroupRecords, names: dict[str, str]) -> None:
    """Derive names of topic ids from past assignments, and add them to ``names`` (id -> name).

    A target assignment has only topics that its member is subscribed to at the time.
    """
    claims: dict[tuple[frozenset[str], frozenset[str]], None] = {}
    for of_group in records.by_group().values():
        for record, member_id, group in replay(of_group):
            if record.version not in TARGET_KEYS or TYPE_OF[record.version] == "streams":
                continue
            member = group.member(record.version, member_id or "")
            if member is None or member["subscribed_regex"] or not member["subscribed_topics"]:
                continue
            ids = frozenset(topic["topic_id"] for topic in member["target_assignment"])
            if ids:
                claims[frozenset(member["subscribed_topics"]), ids] = None
    settle_names(list(claims), names)
