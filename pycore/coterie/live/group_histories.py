"""The histories of a partition's groups, extended by the records that are new.

``PartitionView.histories`` makes the same of the whole log. Cost: the new records, and for each of
their groups a look at its generations.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from coterie._core.codec.layout import decode_utf8
from coterie._core.fold.history import GroupLog
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import SurveyedLog
from coterie.insight.records.partition_view import GroupHistory, clients_of
from coterie.state.rows import KEY_GROUP


class Histories:
    """The metadata records of each group, and the records of the newer protocols."""

    def __init__(self, log: SurveyedLog, from_start: bool) -> None:
        self.log = log
        self.from_start = from_start
        self.by_group: dict[str, GroupHistory] = {}
        self.newer = log.group_log.part(())
        self.newer_by_group: dict[str, GroupRecords] = {}
        self.raw_ids: dict[str, bytes] = {}
        self.taken = 0  # records of the log's groups

    def extend(self) -> bool:
        """Take the records that are new in the log; return whether there are any."""
        places = self.log.group_log.places[self.taken :]
        self.taken += len(places)
        touched: dict[str, int] = {}
        for place in places:
            if place.version != KEY_GROUP:
                self.newer.places.append(place)
                newer = self.newer_by_group.setdefault(place.group, self.log.group_log.part(()))
                newer.places.append(place)
                continue
            if place.group not in self.by_group:
                records = self.log.group_log.part(())
                history = GroupHistory(place.group, records, [], {}, self.from_start)
                self.by_group[place.group] = history
            records = self.by_group[place.group].records
            touched.setdefault(place.group, len(records))
            records.places.append(place)
        for group, known in touched.items():
            self._add_generations(group, known)
        return bool(places)

    def _add_generations(self, group: str, known: int) -> None:
        history = self.by_group[group]
        records = history.records
        generations = self._folded(group).generations()
        new = [
            {**row._asdict(), "file": place.file, "position": place.position}
            for row, place in zip(generations[known:], records.places[known:], strict=True)
        ]
        history.generations.extend(new)
        history.clients.update(clients_of(new, records[known:]))
        self.by_group[group] = replace(history)  # drops what it has cached

    def _folded(self, group: str) -> GroupLog:
        groups = self.log.fold.groups
        for raw_id in islice(groups, len(self.raw_ids), None):
            self.raw_ids[decode_utf8(raw_id)] = raw_id
        return groups[self.raw_ids[group]]
