"""The command lines for a log: drawn at random, and fixed ones for recorded logs."""

import json

from .command_output import MODES

MINUTE_MS = 60_000
DAYS = ("1m", "36h", "7d", "400d")


def draw(rng, made, home):
    """Return (mode, arguments) of each command for a log, and write the files that they name.

    They include every command, and every question at least twice with different options.
    """
    drawn = CommandLines(rng, made)
    drawn.write_files(home)
    return [(rng.choice(MODES), line) for line in drawn.lines()]


class CommandLines:
    """Draws the options of commands."""

    def __init__(self, rng, made):
        self.rng, self.made = rng, made

    def one(self, *choices):
        """Return one of several lists of arguments."""
        return list(self.rng.choice(choices))

    def time(self):
        """Return a time of the log, or a time near one."""
        times = self.made.times or [0]
        chosen = self.rng.choice([times[0] - 1, times[-1], times[-1] + 86_400_000, *times])
        return str(max(chosen + self.rng.choice([0, 0, 0, -1, 1]), 0))

    def group(self):
        """Return ``--group`` once or twice: a group, a pattern, or a group that does not exist."""
        names = [*self.made.groups, *self.made.groups, "nobody", "g*", "*p*"]
        return [
            word
            for _ in range(self.rng.choice([1, 1, 2]))
            for word in ("--group", self.rng.choice(names))
        ]

    def some(self):
        """Return options for groups and for a window of time."""
        window = self.one([], [], [], ["--since", self.time()], ["--until", self.time()])
        return [*self.one([], [], self.group()), *window]

    def at(self, share=0.4):
        """Return ``--at``, or nothing."""
        return ["--at", self.time()] if self.rng.random() < share else []

    def data(self):
        """Return a format, rarely a table."""
        return ["--format", self.rng.choice(["json"] * 6 + ["csv", "table"])]

    def write_files(self, home):
        """Write end offsets, with and without times, and a live state."""
        rng = self.rng
        keys = [(topic, n) for topic, count in self.made.topics.items() for n in range(count)][:30]
        ends = {key: rng.choice([0, 10, 100, 1000, 1 << 41]) for key in keys if ":" not in key[0]}
        times = sorted({self.time() for _ in range(rng.randint(1, 5))}, key=int)
        timed = ["time,topic,partition,offset"]
        for at, ms in enumerate(times):
            for (topic, number), end in ends.items():
                if topic and rng.random() < 0.9:
                    offset = rng.choice([end + at * 10, end + at * 10, "", end // 2])
                    timed.append(f"{ms},{topic},{number},{offset}")
        untimed = [f"{topic}:{number}:{end}" for (topic, number), end in ends.items() if topic]
        (home / "timed.csv").write_text("\n".join(timed), encoding="utf-8")
        (home / "ends.txt").write_text("\n".join(untimed), encoding="utf-8")
        live = [
            {
                "group_id": group,
                "state": rng.choice(["Stable", "Empty"]),
                "members": [{"member_id": "c1-000001"}],
                "offsets": [{"topic": topic, "partition": n, "offset": 7} for topic, n in keys[:3]],
            }
            for group in [*self.made.groups[:3], "only-live"]
        ]
        (home / "live.json").write_text(json.dumps({"groups": live}), encoding="utf-8")

    def lines(self):
        """Yield the arguments of each command."""
        yield from self.replays()
        yield from self.views()
        yield from self.states()
        yield from self.commits()
        yield from self.lives()

    def replays(self):
        fault = ["--on-fault", self.rng.choice(["skip", "skip", "recover", "load", "stop"])]
        yield ["replay", "--history", *fault, *self.one([], [], self.group()), *self.at()]
        fault = ["--on-fault", self.rng.choice(["skip", "recover", "load", "stop"])]
        yield ["replay", *fault, *self.one([], [], [], self.group()), *self.at()]
        yield ["replay", "--format", "json", *self.at(0.2)]

    def views(self):
        kind = self.one([], [], ["--kind", "share"], ["--kind", "streams"])
        yield ["groups", "--list", "--state", "--type", *kind, *self.at(0.2)]
        for view in self.rng.sample(["--offsets", "--members", "--state"], 2):
            who = self.one(["--all-groups"], ["--all-groups"], self.group())
            more = [*self.one([], ["--verbose"]), *self.one([], ["--layout", "4.1"])]
            shape = self.one([], ["--format", "json"], ["--format", "csv"])
            yield ["groups", "--describe", view, *who, *more, *kind, *shape, *self.at(0.3)]

    def states(self):
        """Questions about a state."""
        for _ in range(2):
            who = self.one(["--all-groups"], ["--all-groups"], self.group())
            when = [self.rng.choice(["--at", "--before"]), self.time()]
            more = self.one([], [], ["--against-latest"], ["--without-deleted"])
            shape = self.one(["--format", "json"], ["--format", "json"], [])
            yield ["undo", *who, *when, *more, *shape, "--retention", self.rng.choice(DAYS)]
        for _ in range(2):
            more = self.one([], ["--within", "36h"], ["--idle"], ["--status", "expired"])
            now = self.one([], ["--now", self.time()])
            retention = ["--retention", self.rng.choice(DAYS), *self.one([], ["--what-if", "1m"])]
            yield ["expire", *self.data(), *now, *retention, *more, *self.some()]
        ends = self.one([], ["--end-offsets", "ends.txt"], ["--end-offsets", "timed.csv"])
        yield ["metrics", "--format", "json", *ends, *self.some()]
        more = self.one([], ["--names", "kminion"], ["--granularity", "topic"])
        chosen = self.one([], ["--topic-filter", "o"], ["--group-exclude", "^p"])
        yield ["metrics", *more, *chosen, *self.at(0.5), *self.one([], self.group())]

    def commits(self):
        """Questions about every commit."""
        late = str(max(self.made.times, default=0) + self.rng.choice([-1, 0, 1, 10**7]))
        until = self.one([], [], ["--log-until", late])
        yield ["lag", "--end-offsets", "timed.csv", *self.data(), *until, *self.some()]
        more = self.one([], ["--latest"], ["--totals"])
        yield ["lag", "--end-offsets", "timed.csv", "--format", "json", *more]
        yield [
            "lag",
            "--end-offsets",
            "ends.txt",
            "--format",
            "json",
            *self.one(self.at(1), self.some()),
        ]
        yield ["growth", "--format", "json", "--interval", self.rng.choice(["1s", "1m"])]
        yield ["growth", *self.data(), *self.one([], ["--every", "1m"]), *self.some()]
        limits = ["--no-progress", "2", "--metadata-bytes", self.rng.choice(["0", "40", "1024"])]
        limits += ["--rewind-by", self.rng.choice(["1", "4", "50"])]
        limits += ["--takeovers", "2", "--window", self.rng.choice(["10m", "400d"])]
        yield ["audit", "--format", "json", *limits, *self.one([], ["--live", "live.json"])]
        yield ["audit", *self.data(), *self.one(limits, []), *self.some()]

    def lives(self):
        """Questions about the lives of groups, the log itself, and the page of all."""
        flaps = ["--flap-count", "2", "--flap-window", self.rng.choice(["1m", "10m", "400d"])]
        yield ["explain", "--format", "json", *flaps]
        yield ["explain", *self.data(), *self.one([], flaps), *self.some()]
        yield [
            "explain",
            "--format",
            "json",
            *self.one([], flaps),
            *self.at(1),
            *self.one([], self.group()),
        ]
        yield ["records", *self.some()]
        yield ["verify"]
        shape = self.one(["--format", "markdown"], ["-o", "page.html"])
        yield ["report", *shape, "--retention", self.rng.choice(DAYS), *self.some()]


def plain(made, home):
    """Yield further commands for a recorded log: all tables and CSV, a broker's logs."""
    newest = str(max(made.times, default=0))
    for shape in ("table", "csv"):
        for name in ("explain", "expire", "growth", "audit", "metrics"):
            yield [name, "--format", shape]
        yield ["undo", "--all-groups", "--at", newest, "--format", shape]
        yield ["lag", "--end-offsets", "timed.csv", "--format", shape]
        for view in ("--offsets", "--members", "--state"):
            yield ["groups", "--describe", "--all-groups", view, "--format", shape]
    yield ["expire", "--offsets"]
    yield ["groups", "--list"]
    yield ["replay", "--history", "--include-deleted"]
    if (home / "server.log.gz").exists():
        broker_logs = ["--server-log", "server.log.gz", "--request-log", "kafka-request.log.gz"]
        yield ["explain", "--format", "json", *broker_logs]
        yield ["explain", "--format", "json", *broker_logs[:2], "--include-deleted"]
        yield ["audit", "--format", "json", *broker_logs[2:]]
        yield ["report", "-o", "page.html", *broker_logs]
