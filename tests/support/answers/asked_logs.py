"""The logs of the net by name: ``17`` is a seed, ``basic`` a golden log, ``#2`` asks once more.

Of each, :func:`opened` gives a folder with the log in ``log``, and what is asked of it.
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

from . import asking
from .logs import Made, make

SEEDS = 2000
SAMPLED = range(30)
ROUNDS = 3  # of golden logs, each with other options
WIDE = "wide"
KINDS = ("log", "whole", "compacted", "with-deleted")  # of an incident's logs


def golden():
    """Return name -> folder of every recorded log that is here."""
    found = {case: golden_data.log(case) for case in golden_data.cases()}
    corrupt = [f"corrupt/{case}" for case in golden_data.corrupt_cases()]
    found |= {case: golden_data.log(case) for case in corrupt}
    for name in golden_data.incidents():
        folder = golden_data.incident(name)
        kinds = [kind for kind in KINDS if (folder / kind).is_dir()]
        found |= {f"incident/{name}/{kind}": folder / kind for kind in kinds}
        if not kinds:
            found[f"incident/{name}"] = folder
    wide = golden_data.SHARED / "golden" / "logs" / WIDE
    return found | ({WIDE: wide} if wide.exists() else {})


def names():
    """Return the names of all logs, the seeds last."""
    found = []
    for name in golden():
        rounds = 1 if name.startswith("corrupt") or name == WIDE else ROUNDS
        found += [name, *(f"{name}#{number}" for number in range(2, rounds + 1))]
    return found + [str(seed) for seed in range(SEEDS)]


def sample():
    """Return the names of those that ``make test`` asks."""
    corrupt = [name for name in golden() if name.startswith("corrupt")][::4]
    return [*(name for name in names() if name.endswith("#2")), *corrupt, *map(str, SAMPLED)]


@contextmanager
def opened(name):
    """Yield a folder that holds a log, the log's size, its digest, and what is asked."""
    with tempfile.TemporaryDirectory() as home:
        place = Path(home)
        if name.isdigit():
            made = make(int(name), place / "log")
        else:
            made = recorded(name.partition("#")[0], place)
        lines = asking.draw(random.Random(f"asked of {name}"), made, place)
        if name in golden() and name != WIDE and not name.startswith("corrupt"):
            lines += [("whole", line) for line in asking.plain(made, place)]
        if name == WIDE:  # of which a table takes minutes to draw
            lines = [one for one in lines if "json" in one[1]]
        asked = hashlib.sha256(f"{made.digest} {json.dumps(lines)}".encode()).hexdigest()
        yield place, made.size, asked, lines


def recorded(name, home):
    """Link to a recorded log, and to a broker's logs beside it; return what can be asked of it."""
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
    told = {topic: min(topics[topic] + 1, 5) for topic in few}
    kept = sorted(times - {-1})
    every = kept[:: max(len(kept) // 12, 1)] + kept[-1:]
    return Made(home, chosen or ["g"], told, every, listing.size, digest.hexdigest())


def learn(key, groups, topics):
    """Note the group and the topic of a key that can be read."""
    try:
        told = decode_key(key)
    except (CoterieError, TypeError):
        return
    data = told.get("data", {})
    groups.update(data[name] for name in ("group", "groupId") if name in data)
    if 0 <= data.get("partition", -1) < 10_000:
        topics[data["topic"]] = max(topics.get(data["topic"], 0), data["partition"])
