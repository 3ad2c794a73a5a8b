"""The golden traces of consumer groups, and what must be equal of two outputs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "golden" / "consumer-groups"
BEHAVIOURS = {"4.1": None, "4.1.2": "alt-4.1.2", "4.2": "alt-4.2.1"}
# Of newer behaviours: the folders of what each answers. What 4.3 and 4.3.1 answer like 4.4 has no
# file, and of the older traces there are only some.
NEWER = {
    "4.4": ("scenarios-4.4", "random-4.4", "again-4.4", "classic-4.4", "alt-4.4.0/scenarios",
            "alt-4.4.0/random"),
    "4.3.1": ("alt-4.3.1/scenarios-4.4", "alt-4.3.1/random-4.4", "alt-4.3.1/again-4.4",
              "alt-4.3.1/scenarios", "alt-4.3.1/random"),
    "4.3": ("alt-4.3.0/scenarios-4.4", "alt-4.3.1/scenarios-4.4"),
}  # fmt: skip


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


@cache
def names():
    """Of the traces with an output of each behaviour: ``scenarios/NAME`` or ``random/NAME``."""
    return sorted([*names_in("scenarios"), *names_in("random")])


def names_in(folder):
    """Of the traces of one folder: ``FOLDER/NAME``."""
    paths = (FOLDER / folder).glob("*.trace.jsonl.gz")
    return sorted(f"{folder}/{path.name.split('.')[0]}" for path in paths)


def trace(name):
    return read(FOLDER / f"{name}.trace.jsonl.gz")


def path_of(name, behaviour="4.1"):
    other = FOLDER / (BEHAVIOURS[behaviour] or "") / f"{name}.expected.jsonl.gz"
    return other if other.exists() else FOLDER / f"{name}.expected.jsonl.gz"


def expected(name, behaviour="4.1"):
    return read(path_of(name, behaviour))


def newer():
    """Of each output of a newer behaviour: (behaviour, FOLDER/NAME of its trace, its path)."""
    rows = {}
    for behaviour, folders in NEWER.items():
        for folder in folders:
            for path in sorted((FOLDER / folder).glob("*.expected.jsonl.gz")):
                name = f"{path.parent.name}/{path.name.split('.')[0]}"
                rows.setdefault((behaviour, name), path)
    return [(*key, path) for key, path in rows.items()]


def plain(value):
    """null and an absent field mean the same; lists of an answer have no order."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def by_kind(lines):
    """Answers by id; appends, transitions and changes of each group in their order."""
    answers, groups = {}, {}
    for line in lines:
        event = json.loads(line) if isinstance(line, str) else line
        if event["event"] in ("timer", "note"):
            continue
        event = plain({k: v for k, v in event.items() if k not in ("record", "error_message")})
        if event["event"] == "response":
            assert event["id"] not in answers
            for rows in ("members", "groups"):
                if rows in event:
                    event[rows].sort(
                        key=lambda row: (
                            row.get("member_id") or row.get("group_id") or "",
                            row.get("group_instance_id") or "",
                        )
                    )
            if "partitions" in event:
                event["partitions"].sort(key=lambda row: (row["topic"], row["partition"]))
            answers[event["id"]] = event
        else:
            place = groups.setdefault((event["group_id"], event["event"] == "group"), [])
            place.append(event)
    return answers, groups
