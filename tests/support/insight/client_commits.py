"""Commits of a recorded incident that the brokers confirmed to the clients."""

import gzip
import json

from support.golden_data import incident


def commit_answers(name, group):
    """The commits of a group that were answered, in order of time; see the incidents' README."""
    with gzip.open(incident(name) / "commits.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["group"] == group]
