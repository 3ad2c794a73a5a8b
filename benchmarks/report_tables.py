"""Tables of one subject each, for ``report.py``: cores, Spark by size, history, questions, UDFs.

A table is a list of lines, with its title; empty where its subject was not measured. Cells of a
peer that is missing stay empty. All figures are medians of rounds, by the clock if not said else.
"""

TIMES = "\N{MULTIPLICATION SIGN}"
FOLD, CORES, QUESTION, UDF = "fold on Spark, ", "fold by cores, ", "question ", "UDF "
FOLDS_ASKED = dict.fromkeys(("expire", "metrics", "lag", "undo"), (3, 1.5))  # all, one group
FOLDS_ASKED |= dict.fromkeys(("audit", "growth", "explain"), (5, 1.5)) | {"report": (8, 3)}
HISTORY, SMALL = "replay to Parquet", "process of a small log on Spark"


def of(rows, prefix):
    """{(work, without the prefix, size): {peer: row}} of the works that begin so, in order."""
    found = {}
    for (work, size, peer), row in sorted(rows.items()):
        if work.startswith(prefix):
            found.setdefault((work.removeprefix(prefix), size), {})[peer] = row
    return found


def table(title, head, lines):
    """Return a table under its title, or nothing."""
    if not lines:
        return []
    cells = [head, ["---"] * len(head), *lines]
    return [f"### {title}", *(f"| {' | '.join(map(str, line))} |" for line in cells), ""]


def told(row, seconds=None):
    """Seconds of a row, or those given, in words."""
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
    """The size of a row's log in words; results of before sizes were noted have none."""
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
        lines.append([what, f"{size:,}", told(one)])
        for peer in peers:
            lines[-1] += [told(found.get(peer)), ratio(one, found.get(peer))]
    return table("The local engine by cores", head, lines)


def spark(rows):
    """The fold on Spark by size, and what its figures leave out."""
    head = ["cores", "log", "records", "local engine", "Spark", "its rate, of local's"]
    head += ["the same, a job's start and end apart", "folded by the driver"]
    head += ["identity `mapInArrow`", "times Spark's"]
    lines, apart = [], {}
    for (what, size), found in of(rows, FOLD).items():
        here, there = found.get("local engine"), found.get("coterie")
        same, driver = found.get("identity mapInArrow"), found.get("coterie, by the driver")
        ends_s = there.info.get("ends_s") if there else None
        line = [what.split()[0], size_of(there or here or same), f"{size:,}", told(here)]
        line += [told(there), share(here, there), share(here, there, ends_s) if ends_s else ""]
        lines.append([*line, told(driver), told(same), ratio(same, there)])
        if there and there.info.get("start_s"):
            apart[what] = there, ends_s
    sentences = []
    for what, (row, ends_s) in apart.items():
        ends = f"; a job's start and end, on a warm session: {told(row, ends_s)}" if ends_s else ""
        sentences.append(f"Start of the session, {what}: {told(row, row.info['start_s'])}{ends}.")
    if sentences:
        sentences += ["The first of them starts the JVM as well.", ""]
    return table("The fold on Spark by size", head, lines) + sentences


def small(rows):
    lines = [
        [peer, told(row), told(row, row.info["cpu_s"])]
        for found in of(rows, SMALL).values()
        for peer, row in found.items()
    ]
    title = "A small log on Spark, whole processes"
    return table(title, ["process", "clock", "CPU, the JVM's with it"], lines)


def history(rows):
    head = ["records", "with `--history`", "without", "times as long", "commits a second"]
    lines = []
    for (_, size), found in of(rows, HISTORY).items():
        ours, without = found.get("coterie"), found.get("without history")
        rate = f"{ours.info['commits'] / ours.seconds:,.0f}" if ours else ""
        lines.append([f"{size:,}", told(ours), told(without), ratio(ours, without), rate])
    return table("Every commit as a row", head, lines)


def questions(rows):
    """CPU time as multiples of the fold's in the same run."""
    head = ["question", "log", "all groups, CPU", "of the fold's", "asked", "clock by CPU"]
    head += ["table by CSV", "peak memory", "`--group`, CPU", "of the fold's", "asked"]
    lines = []
    for (what, size), found in of(rows, QUESTION).items():
        every, one, text = (found.get(f"coterie{kind}") for kind in ("", ", one group", ", CSV"))
        every = every or found.get("kafka-dump-log | grep")
        if every is None or "folds" not in every.info:  # measured before there were folds
            continue
        of_all, of_one = FOLDS_ASKED.get(what, ("", ""))
        info = every.info
        line = [f"`{what}`", f"{size / 1000:g} GB", told(every), folds(every), of_all]
        line += [f"{info['wall_s'] / info['cpu_s']:.2f}", ratio(every, text)]
        lines.append([*line, f"{info['peak_mb']:,} MB", told(one), folds(one), of_one])
    return table("Questions of one partition, by the fold of its log", head, lines)


def folds(row):
    """How many folds of the log a row took."""
    return f"{row.info['folds']:.1f} {TIMES}" if row else ""


def udfs(rows):
    head = ["UDF", "rows", "coterie", "identity UDF", "times as long"]
    head += ["column expression", "times as long"]
    lines = []
    for (what, size), found in of(rows, UDF).items():
        ours = found.get("coterie")
        lines.append([f"`{what}`", f"{size:,}", told(ours)])
        for peer in ("identity UDF", "column expression"):
            lines[-1] += [told(found.get(peer)), ratio(ours, found.get(peer))]
    return table("UDFs", head, lines)


def tables(rows):
    """All of them, those without a measurement left out."""
    for subject in (cores, spark, small, history, questions, udfs):
        yield from subject(rows)
