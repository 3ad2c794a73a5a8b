"""The logs by name: ``17`` is a seed, ``basic`` a golden log, ``basic#2`` its second round.

:func:`opened` gives a folder with the log in ``log``, and the command lines for it.
"""

import hashlib
import json
import random
import tempfile
from contextlib import contextmanager
from pathlib import Path

from coterie.errors import CoterieError
from coterie.log.folders import find_segments, read_segment
from coterie.messages import LogReader, decode_key
from support import golden_data

from . import command_lines
from .logs import Made, make

SEEDS = 2000
SAMPLED = range(30)
ROUNDS = 3  # of golden logs, each with other options
WIDE = "wide"
KINDS = ("log", "whole", "compacted", "with-deleted")  # of an incident's logs
KINDS += ("broker-1", "broker-2", "broker-3")


def golden():
    """Return name -> folder of every recorded log that exists here."""
    folders = {case: golden_data.log(case) for case in golden_data.cases()}
    corrupt = [f"corrupt/{case}" for case in golden_data.corrupt_cases()]
    folders |= {case: golden_data.log(case) for case in corrupt}
    for name in golden_data.incidents():
        folder = golden_data.incident(name)
        kinds = [kind for kind in KINDS if (folder / kind).is_dir()]
        folders |= {f"incident/{name}/{kind}": folder / kind for kind in kinds}
        if not kinds:
            folders[f"incident/{name}"] = folder
    wide = golden_data.SHARED / "golden" / "logs" / WIDE
    return folders | ({WIDE: wide} if wide.exists() else {})


def names():
    """Return the names of all logs, the seeds last."""
    found = []
    for name in golden():
        rounds = 1 if name.startswith("corrupt") or name == WIDE else ROUNDS
        found += [name, *(f"{name}#{number}" for number in range(2, rounds + 1))]
    return found + [str(seed) for seed in range(SEEDS)]


def sample():
    """Return the names of the logs in ``make test``."""
    corrupt = [name for name in golden() if name.startswith("corrupt")][::4]
    return [*(name for name in names() if name.endswith("#2")), *corrupt, *map(str, SAMPLED)]


@contextmanager
def opened(name):
    """Yield a folder with a log, the log's size, a digest of log and commands, and the commands."""
    with tempfile.TemporaryDirectory() as home:
        place = Path(home)
        if name.isdigit():
            made = make(int(name), place / "log")
        else:
            made = recorded(name.partition("#")[0], place)
        lines = command_lines.draw(random.Random(f"asked of {name}"), made, place)
        if name in golden() and name != WIDE and not name.startswith("corrupt"):
            lines += [("whole", line) for line in command_lines.plain(made, place)]
        if name == WIDE:  # formatting its tables takes minutes
            lines = [line for line in lines if "json" in line[1]]
        digest = hashlib.sha256(f"{made.digest} {json.dumps(lines)}".encode()).hexdigest()
        yield place, made.size, digest, lines


def recorded(name, home):
    """Link to a recorded log and its broker's logs; return what command lines can name."""
    folder = golden()[name]
    (home / "log").symlink_to(folder)
    for broker in ("server.log.gz", "kafka-request.log.gz"):
        for place in (folder, folder.parent):
            if name.startswith("incident") and (place / broker).exists():
                (home / broker).symlink_to(place / broker)
    groups, topics, times, digest = set(), {}, set(), hashlib.sha256()
    listing = find_segments([folder])
    for segment in listing.segments:
        data = bytes(read_segment(segment))
        digest.update(data)
        for batch in LogReader(data):
            times.add(batch.max_timestamp)
            for record in () if batch.is_control else batch.records:
                learn(record.key, groups, topics)
    chosen = sorted(groups)[:: max(len(groups) // 8, 1)]
    few = sorted(topics)[:: max(len(topics) // 6, 1)]
    partitions = {topic: min(topics[topic] + 1, 5) for topic in few}
    ordered = sorted(times - {-1})
    some_times = ordered[:: max(len(ordered) // 12, 1)] + ordered[-1:]
    return Made(home, chosen or ["g"], partitions, some_times, listing.size, digest.hexdigest())


def learn(key, groups, topics):
    """Add the group and the topic of a readable key."""
    try:
        decoded = decode_key(key)
    except (CoterieError, TypeError):
        return
    data = decoded.get("data", {})
    groups.update(data[name] for name in ("group", "groupId") if name in data)
    if 0 <= data.get("partition", -1) < 10_000:
        topics[data["topic"]] = max(topics.get(data["topic"], 0), data["partition"])
