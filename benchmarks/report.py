"""Tables and plots of the README, from the results that the benchmarks wrote.

    python benchmarks/report.py [benchmarks/results] [benchmarks/README.md]

Reads ``*.json`` of pytest-benchmark. Replaces what stands in the README between
``<!-- results: AREA -->`` and ``<!-- end -->``: the command, machine and date of the measurement,
and the area's table (those of single subjects come from ``report_tables.py``). An area without
results keeps what stands there. Writes ``results/*.svg`` if matplotlib is installed. A ratio is
the peer's median divided by coterie's, same run.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import report_tables as single
from report_tables import QUESTION

BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Row(NamedTuple):
    """What was measured of a peer: the median call, and how many operations one is."""

    seconds: float
    count: int
    version: str
    unit: str
    info: dict  # further data of the benchmark


class Place(NamedTuple):
    """Where a subject was measured, and when."""

    machine: str
    day: str
    clock: str  # empty: the wall clock


class Line(NamedTuple):
    """A row of ratios: coterie beside a peer at one size, and the goal; 0: none was set."""

    title: str
    work: str
    size: int  # 0: every size that was measured
    peer: str
    goal: float = 0
    ours: str = "coterie"


WIDE = 1_182_263  # records of the wide log
ONE_GROUP = "votes, unequal lists, one group"
RATIOS = {
    "structures": [
        Line("re-arming a timer, in order, bulk", "rearm", 1_000_000, "kafka", 30),
        Line("re-arming a timer, all over, bulk", "rearm, shuffled", 1_000_000, "kafka", 30),
        Line("firing timers spread over 60 s", "fire", 1_000_000, "kafka", 8),
        Line("votes, one group of 1,000", "votes", 1000, "kafka", 10),
        Line("votes, 1,000 such groups", "votes", 1000, "kafka", 10, "coterie, many groups"),
        Line("votes, unequal lists, 200 groups of 5", "votes, unequal lists", 1000, "kafka", 10),
        Line("votes, unequal lists, one group", ONE_GROUP, 1000, "kafka", 10),
        Line("expiry, columns, beside a group", "expiry, columns", 1_000_000, "kafka", 500),
        Line("expiry, columns", "expiry, columns", 1_000_000, "numpy", 2),
        Line("expiry in OffsetMap", "expiry, group", 1_000_000, "kafka", 10),
    ],
    "coordinator": [
        Line("heartbeats", "coordinator, many-heartbeats", 0, "kafka", 8),
        Line("the big group", "coordinator, big-group", 0, "kafka", 8),
        Line("many small groups", "coordinator, many small groups", 0, "kafka", 10),
    ],
    "consumer_groups": [
        Line("the big group", "consumer groups, big group", 0, "kafka", 8),
        Line("2,000 groups of three", "consumer groups, many groups", 0, "kafka", 8),
        Line("`uniform`, equal", "consumer groups, assign, uniform", 0, "kafka", 5),
        Line("`uniform`, unequal", "consumer groups, assign, uniform-unequal", 0, "kafka", 5),
        Line("`range`", "consumer groups, assign, range", 0, "kafka", 5),
    ],
    "growth": [
        Line("4,000,000 events, groups of ten", "groups of ten members", 4_000_000, "kafka"),
        Line("400,000 events, one group", "members of a group", 400_000, "kafka"),
        Line("fold of 10 GB", "fold of a log", 127_353_734, "kafka"),
    ],
    "log": [
        Line("fold of the wide log", "fold", WIDE, "kafka", 12),
        Line("decoding it to columns", "decode", WIDE, "kafka", 80),
        # The goal was set beside a reader of 136,000 records/s; kafka-python 3.0.12 reads 200,000
        # to 267,000. To reach 200 times that, decoding would have to take 22 ms, and a bare fold
        # loop in C takes 28 (limits/limits.py).
        Line("decoding it to columns", "decode", WIDE, "kafka-python", 200),
        Line("last record per key", "last record per key", WIDE, "numpy, table of keys"),
        Line("last record per key", "last record per key", WIDE, "polars"),
    ],
}

STARTS = {"python": None, "click": None}  # what is started -> CPU seconds
STARTS |= {"import coterie": 0.08, "coterie --help": 0.15, "coterie groups": 0.25}


def read(folder):
    """{(work, size, peer): Row}, and {subject: Place}."""
    rows, places = {}, {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        clocks = set()
        for bench in document["benchmarks"]:
            info = bench["extra_info"]
            key = info["work"], info["size"], info["peer"]
            count = info.get("count", info["size"])
            seconds = bench["stats"]["median"]
            rows[key] = Row(seconds, count, info["version"], info["unit"], info)
            timer = bench["options"]["timer"]
            # A process measures itself; the tables of such subjects name the clock.
            if "Replayed" not in timer and timer not in ("perf_counter", "children_s"):
                clocks.add(timer)
        machine = document["machine_info"]
        cpu = machine["cpu"]
        name, cores = cpu.get("brand_raw", machine["machine"]), cpu.get("count", "?")
        where = f"{name.removesuffix(' Processor')}, {cores} cores"
        places[path.stem] = Place(where, document["datetime"][:10], ", ".join(sorted(clocks)))
    return rows, places


def measured(places, target, subjects):
    """The line above a table: command, machine, dates."""
    named = subjects[0] if len(subjects) == 1 else f'"{" ".join(subjects)}"'
    found = [places[subject] for subject in subjects if subject in places]
    machines = "; ".join(dict.fromkeys(place.machine for place in found))
    days = sorted({place.day for place in found})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    clocks = "".join(dict.fromkeys(f"; clock: {place.clock}" for place in found if place.clock))
    return f"`make {target} SUBJECTS={named}`: {machines}, {when}{clocks}."


def nanoseconds(rows, work, size, peer):
    row = rows.get((work, size, peer))
    return row and row.seconds / row.count * 1e9


def ratios(rows, wanted):
    lines = []
    for line in wanted:
        sizes = [line.size] if line.size else sorted({s for w, s, _ in rows if w == line.work})
        # Kafka filters a group's map; coterie's columns stand beside that, too.
        theirs_work = "expiry, group" if line.goal == 500 else line.work
        for size in sizes:
            ours = nanoseconds(rows, line.work, size, line.ours)
            theirs = nanoseconds(rows, theirs_work, size, line.peer)
            if not (ours and theirs):
                continue
            goal = f"{line.goal:g}" if line.goal else ""
            lines.append([line.title, line.peer, short(ours), short(theirs)])
            lines[-1] += [f"{theirs / ours:.1f}", goal]
    return single.table(["work", "peer", "coterie, ns", "peer, ns", "ratio", "goal"], lines)


def short(number):
    """Three digits, or all before the point."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def processes(rows):
    """What a start costs, of which every round was a process."""
    lines = []
    for peer, asked_s in STARTS.items():
        if row := rows.get(("start", 1, peer)):
            goal = "" if asked_s is None else f"{asked_s:g} s"
            lines.append([f"{peer} ({row.version})", f"{row.seconds:.3f} s", goal])
    return single.table(["start of a process", "CPU time", "goal"], lines)


def areas(rows):
    """Yield each area, its target of make, its subjects, and its lines."""
    for area, subjects in [
        ("structures", ["timers", "votes", "expiry"]),
        ("coordinator", ["coordinator"]),
        ("consumer_groups", ["consumer_groups"]),
        ("log", ["log", "last"]),
    ]:
        yield area, "bench", subjects, ratios(rows, RATIOS[area])
    yield "growth", "bench-full", ["growth"], ratios(rows, RATIOS["growth"])
    yield "start", "bench", ["start"], processes(rows)
    for area in ("cores", "small", "history", "udfs"):
        yield area, "bench", [area], getattr(single, area)(rows)
    for area in ("spark", "questions"):
        yield area, "bench-full", [area], getattr(single, area)(rows)


def plot(rows, folder):
    """One picture a work that has two sizes or more: time against size, a line a peer."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed: no plots", file=sys.stderr)
        return []
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "coterie"
    from matplotlib import pyplot

    works, names, units = defaultdict(lambda: defaultdict(list)), [], {}
    for (work, size, peer), row in sorted(rows.items()):
        units[work] = f"{row.unit}s"
        works[work][peer].append((size, row.seconds / row.count * size))
    for work, lines in works.items():
        if work.startswith(QUESTION) or max(len(points) for points in lines.values()) < 2:
            continue
        figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
        for peer, points in lines.items():
            style = {"linewidth": 2.4} if peer == "coterie" else {"linewidth": 1}
            axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=peer, **style)
        axes.set(title=work, xlabel=units[work], ylabel="seconds")
        axes.grid(which="major", alpha=0.3)
        axes.legend(fontsize=8)
        names.append(f"{work.replace(', ', '-').replace(' ', '-')}.svg")
        figure.savefig(folder / names[-1], metadata={"Date": None})
        pyplot.close(figure)
    for path in folder.glob("*.svg"):  # of what is no longer measured in two sizes
        if path.name not in names:
            path.unlink()
    return names


def filled(text, rows, places, plots):
    """The README with the tables of what was measured."""
    blocks = {
        area: [measured(places, target, subjects), "", *lines]
        for area, target, subjects, lines in areas(rows)
        if lines
    }
    if plots:
        blocks["plots"] = [", ".join(f"[{name[:-4]}](results/{name})" for name in plots)]

    def put(found):
        lines = blocks.get(found[2])
        return found[1] + "\n".join(lines).rstrip() + f"\n{found[3]}" if lines else found[0]

    return BLOCK.sub(put, text)


def main(folder="benchmarks/results", readme="benchmarks/README.md"):
    folder, readme = Path(folder), Path(readme)
    rows, places = read(folder)
    if not rows:
        print(f"no results in {folder}: run `make bench` first", file=sys.stderr)
        return 1
    readme.write_text(filled(readme.read_text(), rows, places, plot(rows, folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
