"""The table of ratios and the plots, from the results that the benchmarks wrote.

    python benchmarks/report.py [benchmarks/results] [benchmarks/README.md]

Reads ``*.json`` of pytest-benchmark; writes the part of the README between its two marks (the
tables of single subjects are those of ``report_tables.py``), and
``results/*.svg`` where matplotlib is there. A ratio is the peer's median by coterie's, same run.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from report_tables import QUESTION, TIMES, tables

BEGIN, END = "<!-- results -->", "<!-- end of results -->"


class Row(NamedTuple):
    """What was measured of a peer: the median call, and how many operations one is."""

    seconds: float
    count: int
    version: str
    unit: str
    info: dict  # what else the benchmark noted


class Line(NamedTuple):
    """What a ratio is asked of: the peer's row beside coterie's, at one size."""

    title: str
    work: str
    size: int
    peer: str
    asked: float
    ours: str = "coterie"


OF_1_GB = 13_004_893  # records: at 1 MB a job's start and end are most of the time
ASKED = [
    Line("re-arming a timer, in order, bulk", "rearm", 1_000_000, "kafka", 30),
    Line("re-arming a timer, all over, bulk", "rearm, shuffled", 1_000_000, "kafka", 30),
    Line("firing timers spread over 60 s", "fire", 1_000_000, "kafka", 8),
    Line("votes, one group of 1,000", "votes", 1000, "kafka", 10),
    Line("votes, 1,000 such groups", "votes", 1000, "kafka", 10, "coterie, many groups"),
    Line("votes, unequal lists, 200 groups of 5", "votes, unequal lists", 1000, "kafka", 10),
    Line("votes, unequal lists, one group", "votes, unequal lists, one group", 1000, "kafka", 10),
    Line("expiry, columns, beside a group", "expiry, columns", 1_000_000, "kafka", 500),
    Line("expiry, columns", "expiry, columns", 1_000_000, "numpy", 2),
    Line("expiry in OffsetMap", "expiry, group", 1_000_000, "kafka", 10),
    Line("heartbeats", "coordinator, many-heartbeats", 0, "kafka", 8),
    Line("the big group", "coordinator, big-group", 0, "kafka", 8),
    Line("many small groups", "coordinator, many small groups", 0, "kafka", 10),
    Line("fold of the wide log", "fold", 1_182_263, "kafka", 12),
    Line("decoding it to columns", "decode", 1_182_263, "kafka", 80),
    Line("decoding it to columns", "decode", 1_182_263, "kafka-python", 200),
    Line("the fold on Spark, 1 core", "fold on Spark, 1 core", OF_1_GB, "identity mapInArrow", 1),
    Line("the fold on Spark, 2 cores", "fold on Spark, 2 cores", OF_1_GB, "identity mapInArrow", 1),
]

STARTS = {"python": None, "click": None}  # what is started -> CPU seconds asked
STARTS |= {"import coterie": 0.08, "coterie --help": 0.15, "coterie groups": 0.25}


def read(folder):
    """{(work, size, peer): Row}, and where which subject was measured, in words."""
    rows, places = {}, defaultdict(list)
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
            if "Replayed" not in timer:
                clocks.add("CPU time" if timer == "children_s" else timer)
        # What a process says of itself stands alone only where it went by the clock.
        machine, clock = document["machine_info"], ", ".join(sorted(clocks)) or "perf_counter"
        cpu = machine["cpu"]
        name, cores = cpu.get("brand_raw", machine["machine"]), cpu.get("count", "?")
        where = f"{name}, {cores} cores, Python {machine['python_version']}; clock: {clock}"
        places[where].append(path.stem)
    return rows, [f"{', '.join(subjects)}: {where}" for where, subjects in places.items()]


def nanoseconds(rows, work, size, peer):
    row = rows.get((work, size, peer))
    return row and row.seconds / row.count * 1e9


def ratios(rows):
    yield "| work | beside | coterie | peer | ratio | asked | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for line in ASKED:
        sizes = [line.size] if line.size else sorted({s for w, s, _ in rows if w == line.work})
        # What Kafka filters is a group's map: the columns stand beside that, too.
        theirs_work = "expiry, group" if line.asked == 500 else line.work
        for size in sizes:
            ours = nanoseconds(rows, line.work, size, line.ours)
            theirs = nanoseconds(rows, theirs_work, size, line.peer)
            if not ours:
                continue
            where = f"| {line.title} | {line.peer} | {ours:.3g} ns | "
            asked = f"{line.asked:g} {TIMES}"
            if theirs:
                ratio = theirs / ours
                verdict = "met" if ratio >= line.asked else "not met"
                yield where + f"{theirs:.4g} ns | {ratio:.1f} {TIMES} | {asked} | {verdict} |"
            else:
                yield where + f"not measured | | {asked} | |"


def processes(rows):
    """What a start costs, of which every round was a process."""
    yield "| start of a process | CPU time | asked | |"
    yield "| --- | --- | --- | --- |"
    for peer, asked_s in STARTS.items():
        if row := rows.get(("start", 1, peer)):
            verdict = "" if asked_s is None else "met" if row.seconds <= asked_s else "not met"
            asked = "" if asked_s is None else f"{asked_s:g} s"
            yield f"| {peer} ({row.version}) | {row.seconds:.3f} s | {asked} | {verdict} |"


def everything(rows):
    yield "| work | size | peer | a call | each | of coterie's |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for (work, size, peer), row in sorted(rows.items()):
        each = nanoseconds(rows, work, size, peer)
        ours = nanoseconds(rows, work, size, "coterie")
        ratio = f"{each / ours:.1f} {TIMES}" if ours else ""
        name = peer if peer in row.version else f"{peer} ({row.version})"
        call = f"{row.seconds * 1e3:.3g} ms"
        yield f"| {work} | {size:,} | {name} | {call} | {each:.3g} ns a {row.unit} | {ratio} |"


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


def main(folder="benchmarks/results", readme="benchmarks/README.md"):
    folder, readme = Path(folder), Path(readme)
    rows, places = read(folder)
    if not rows:
        print(f"no results in {folder}: run `make bench` first", file=sys.stderr)
        return 1
    text = readme.read_text() if readme.exists() else "# Benchmarks\n"
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    parts = [
        BEGIN,
        "## Beside the peers, in one run",
        "Medians. Compare within a row: subjects were measured on these machines.",
        "",
        *(f"- {place}" for place in places),
        "",
        *ratios(rows),
        "",
        *processes(rows),
        "",
        *tables(rows),
        *(f"![{name[:-4]}]({folder.name}/{name})" for name in plot(rows, folder)),
        "",
        "<details><summary>Every measurement</summary>",
        "",
        *everything(rows),
        "",
        "</details>",
        END,
    ]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    readme.write_text(before + "\n".join(parts) + after)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
