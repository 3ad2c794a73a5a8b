"""Tables of one subject each, for ``report.py``: cores, Spark by size, history, questions, UDFs.

A table is a list of lines, empty if its subject was not measured. Cells of a missing peer are
empty. All figures are medians of rounds, by the clock unless stated otherwise.
"""

TIMES = "\N{MULTIPLICATION SIGN}"
FOLD, CORES, QUESTION, UDF = "fold on Spark, ", "fold by cores, ", "question ", "UDF "
FOLDS_ASKED = dict.fromkeys(("expire", "metrics", "undo", "lag"), (3, 1.5))  # all, one group
FOLDS_ASKED |= dict.fromkeys(("audit", "growth", "explain"), (5, 1.5)) | {"report": (8, 3)}
SHOWN_MB = (1, 1_000, 10_000)  # of the logs on Spark
DUMP = "kafka-dump-log"
WITHOUT_TIMES = {"lag": "lag, ends without times"}
HISTORY, SMALL = "replay to Parquet", "process of a small log on Spark"


def of(rows, prefix):
    """{(work, without the prefix, size): {peer: row}} of the works that begin so, in order."""
    found = {}
    for (work, size, peer), row in sorted(rows.items()):
        if work.startswith(prefix):
            found.setdefault((work.removeprefix(prefix), size), {})[peer] = row
    return found


def table(head, lines):
    """Return a table, or nothing."""
    if not lines:
        return []
    cells = [head, ["---"] * len(head), *lines]
    return [*(f"| {' | '.join(map(str, line))} |" for line in cells), ""]


def in_words(row, seconds=None):
    """The seconds of a row, or other seconds, in words."""
    if row is None:
        return ""
    seconds = row.seconds if seconds is None else seconds
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"


def ratio(row, other):
    """How many times as long a row took as another."""
    return f"{row.seconds / other.seconds:.2f} {TIMES}" if row and other else ""


def share(here, there, less_s=0):
    """The rate there, of the rate here; with ``less_s`` left out, unless that is half or more."""
    if not (here and there) or there.seconds <= 2 * less_s:
        return ""
    return f"{here.seconds / (there.seconds - less_s) * 100:.0f} %"


def size_of(row):
    """The size of a row's log in words; old results do not have it."""
    size = row.info.get("megabytes", 0)
    return f"{size / 1000:g} GB" if size >= 100 else f"{size} MB" if size else ""


def cores(rows):
    measured = of(rows, CORES)
    peers = sorted({peer for row in measured.values() for peer in row} - {"coterie"})
    head = ["log of 1 GB", "records", "1 thread"]
    for peer in peers:
        head += [peer.removeprefix("coterie, "), "times as fast"]
    lines = []
    for (what, size), found in measured.items():
        one = found.get("coterie")
        lines.append([what, f"{size:,}", in_words(one)])
        for peer in peers:
            lines[-1] += [in_words(found.get(peer)), ratio(one, found.get(peer))]
    return table(head, lines)


def spark(rows):
    """The fold on Spark by size."""
    head = ["cores", "log", "local engine", "Spark", "rate by local's"]
    head += ["without a job's start and end", "identity `mapInArrow`", "by Spark's"]
    lines = []
    for (what, _), found in of(rows, FOLD).items():
        if not any(row.info.get("megabytes") in SHOWN_MB for row in found.values()):
            continue
        here, there = found.get("local engine"), found.get("coterie")
        same = found.get("identity mapInArrow")
        ends_s = there.info.get("ends_s") if there else None
        line = [what.split()[0], size_of(there or here or same), in_words(here), in_words(there)]
        line += [share(here, there), share(here, there, ends_s) if ends_s else ""]
        lines.append([*line, in_words(same), ratio(same, there)])
    return table(head, lines)


def small(rows):
    lines = [
        [peer, in_words(row), in_words(row, row.info["cpu_s"])]
        for found in of(rows, SMALL).values()
        for peer, row in found.items()
    ]
    return table(["process", "clock", "CPU, the JVM's with it"], lines)


def history(rows):
    head = ["records", "`--history`", "without", "times as long", "commits a second"]
    lines = []
    for (_, size), found in of(rows, HISTORY).items():
        ours, without = found.get("coterie"), found.get("without history")
        rate = f"{ours.info['commits'] / ours.seconds:,.0f}" if ours else ""
        lines.append([f"{size:,}", in_words(ours), in_words(without), ratio(ours, without), rate])
    return table(head, lines)


def questions(rows):
    """CPU time as multiples of the fold's in the same run."""
    head = ["question", "log, GB", "all groups", "goal", "wall by CPU", "peak, MB", "as CSV"]
    head += ["one group", "goal"]
    rank = {what: n for n, what in enumerate([*FOLDS_ASKED, "fold", DUMP])}
    lines, measured = [], of(rows, QUESTION)
    for what, size in sorted(measured, key=lambda key: (key[1], rank.get(key[0], 0))):
        found = measured[what, size]
        every, one, text = (found.get(f"coterie{kind}") for kind in ("", ", one group", ", CSV"))
        every = every or found.get(f"{DUMP} | grep")
        if every is None or "folds" not in every.info:  # measured before there were folds
            continue
        of_all, of_one = FOLDS_ASKED.get(what, ("", ""))
        info = every.info
        name = f"fold ({in_words(every)})" if what == "fold" else WITHOUT_TIMES.get(what, what)
        line = [name, f"{size / 1000:g}", folds(every), of_all]
        line += [f"{info['wall_s'] / info['cpu_s']:.2f}", f"{info['peak_mb']:,}"]
        lines.append([*line, folds(text), folds(one), of_one])
    return table(head, lines)


def folds(row):
    """How many folds of the log a row took."""
    return f"{row.info['folds']:.1f}" if row else ""


def udfs(rows):
    head = ["UDF", "rows", "coterie", "identity UDF", "ratio"]
    head += ["column expression", "ratio"]
    lines = []
    for (what, size), found in of(rows, UDF).items():
        ours = found.get("coterie")
        lines.append([f"`{what}`", f"{size:,}", in_words(ours)])
        for peer in ("identity UDF", "column expression"):
            lines[-1] += [in_words(found.get(peer)), ratio(ours, found.get(peer))]
    return table(head, lines)
