"""Compares a release of Kafka with what coterie knows: `make kafka-release VERSION=4.4.0`.

    python tools/kafka_release.py VERSION [--from SOURCE] [--decisions FILE]

Maven brings the release's jars, or SOURCE has them: a folder, such as libs of an unpacked Kafka, or
one jar, of which only messages are compared. Java prints what is in no schema (KafkaFacts.java); a
facts.txt in the folder is such an output. Each difference is decided by a line of the decisions
file, KIND NAME REASON, where * stands for any characters. Exit 1 if one is undecided.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "pycore"), str(ROOT / "tools")]
import wire_table  # noqa: E402
from coterie.base import settings  # noqa: E402
from coterie.server import releases, topic_configs  # noqa: E402
from coterie.server.api import table  # noqa: E402
from coterie.server.services import group_configs  # noqa: E402
from coterie.values import Error  # noqa: E402

DECISIONS = ROOT / "tools/kafka_release.txt"
POM = ROOT / "tests/support/broker/pom.xml"
FACTS = ROOT / "tools/KafkaFacts.java"
TEXTS = ("STRING", "LIST", "CLASS", "PASSWORD")  # the server does not parse them


class Difference(NamedTuple):
    """What a release has otherwise than coterie, or what only one of them has."""

    kind: str
    name: str
    what: str


class Decision(NamedTuple):
    """A line of the decisions file."""

    line: int
    kind: str
    pattern: str
    reason: str

    def fits(self, difference):
        """Whether it decides a difference."""
        return fnmatchcase(difference.kind, self.kind) and fnmatchcase(
            difference.name, self.pattern
        )


def read_decisions(path):
    """Read the decisions file."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            words = line.split(None, 2)
            if len(words) < len(("kind", "name", "reason")):
                raise SystemExit(f"{path}:{number}: a decision is KIND NAME REASON, not {line!r}")
            found.append(Decision(number, *words))
    return found


def jars_of(version, source):
    """Return the paths of a release's jars."""
    if source is None:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "classpath"
            goal = ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
            options = [f"-Dkafka.version={version}", "-Plog4j2", "-f", str(POM)]
            try:
                subprocess.run(["mvn", "-q", "-B", *goal, *options], check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise SystemExit(
                    f"Maven brought no jars of Kafka {version}: {error}; FROM=FOLDER names a "
                    "folder that has them"
                ) from None
            return output.read_text("utf-8").split(os.pathsep)
    if source.is_dir():
        return sorted(map(str, source.glob("*.jar")))
    return [str(source)]


def facts_of(jars, source):
    """Return the facts that no schema has: {kind: {name: words}}; None: one jar has none."""
    ready = None if source is None else source / "facts.txt"
    if ready is not None and ready.exists():
        text = ready.read_text("utf-8")
    elif source is not None and not source.is_dir():
        return None
    else:
        command = ["java", "-cp", os.pathsep.join(jars), str(FACTS)]
        try:
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except OSError as error:
            raise SystemExit(f"facts of the release need Java: {error}") from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{FACTS.name}: {error.stderr.strip()}") from None
    facts = {}
    for line in text.splitlines():
        kind, name, *words = line.split()
        facts.setdefault(kind, {})[name] = words
    return facts


def of_messages(jars):
    """Yield what the schemas in the jars have otherwise than the table of messages."""
    known = wire_table.own_table()
    for jar in jars:
        found = wire_table.of_release(wire_table.of_jar(jar))
        for name, what in wire_table.difference(known, found):
            yield Difference("message", name, what)


def of_names(kind, known, found):
    """Yield the names that only one side has, and those whose words differ."""
    for name in sorted(known.keys() | found.keys()):
        ours, theirs = known.get(name), found.get(name)
        if ours is None:
            yield Difference(kind, name, f"is new: {' '.join(theirs)}")
        elif theirs is None:
            yield Difference(kind, name, f"is gone; here {' '.join(ours)}")
        elif ours != theirs:
            yield Difference(kind, name, f"is {' '.join(theirs)}; here {' '.join(ours)}")


def known_of(release):
    """Return what coterie knows of a release, by kind, in the form of the facts."""
    row = releases.RELEASES[release]
    apis = table.SERVED_BY[release].values()
    groups = {config.name: config for config in group_configs.known_of(release)}
    return {
        "error": {error.name: [str(int(error))] for error in Error},
        "api": {api.name: [str(api.key), f"{api.first}-{api.last}"] for api in apis},
        "feature": {name: [f"{low}-{high}"] for name, (low, high) in row.features.items()},
        "topic": configs(topic_configs.topic_configs_of(release)),
        "group": configs(groups),
    }


def configs(known):
    """Return settings of topics or groups in the form of the facts."""
    return {
        name: [row.type.name + bounds(row.least, row.most), f"={row.default}"]
        for name, row in known.items()
    }


def bounds(least, most):
    """Return the bounds of a number, as ConfigDef writes them."""
    shown = ["" if end is None else f"{end:g}" if isinstance(end, float) else str(end)
             for end in (least, most)]  # fmt: skip
    return f"[{','.join(shown)}]" if any(shown) else ""


def of_broker(release, found):
    """Yield the broker's settings that are missing, of another type, or bounded more widely."""
    known = settings.read_settings(release)
    for name, (kind, *_) in sorted(found.items()):
        if name not in known:
            yield Difference("broker", name, f"is new: {kind}")
            continue
        ours, theirs = known[name], settings.setting_of(name, kind)
        both = {ours.type.name, theirs.type.name}
        low = [-math.inf if row.least is None else row.least for row in (theirs, ours)]
        high = [math.inf if row.most is None else row.most for row in (ours, theirs)]
        narrow = low[0] < low[1] or high[0] < high[1]
        if (len(both) > 1 and not both <= set(TEXTS)) or narrow:
            here = ours.type.name + bounds(ours.least, ours.most)
            yield Difference("broker", name, f"is {kind}; here {here}")


def differences(version, source):
    """Return the differences of a release, and whether all kinds were compared."""
    jars = jars_of(version, source)
    if not jars:
        raise SystemExit(f"{source}: no jar")
    found = list(of_messages(jars))
    facts = facts_of(jars, source)
    if facts is None:
        return found, False
    release = ".".join(version.split(".")[:2])
    if release not in releases.RELEASES:
        found.append(Difference("release", release, "has no row in RELEASES"))
        release = list(releases.RELEASES)[-1]
    for kind, known in known_of(release).items():
        found += of_names(kind, known, facts.get(kind, {}))
    found += of_broker(release, facts.get("broker", {}))
    return found, True


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("--from", dest="source", type=Path, metavar="SOURCE")
    parser.add_argument("--decisions", type=Path, default=DECISIONS, metavar="FILE")
    args = parser.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+", args.version):
        parser.error(f"VERSION is that of a release, such as 4.4.0, not {args.version}")
    if args.source is not None and not args.source.exists():
        parser.error(f"{args.source}: no such file or folder")
    decisions = read_decisions(args.decisions)
    found, is_all = differences(args.version, args.source)
    counts, undecided = Counter(), 0
    for difference in found:
        decision = next((each for each in decisions if each.fits(difference)), None)
        if decision is None:
            undecided += 1
            print(f"undecided: {difference.kind} {difference.name} {difference.what}")
        else:
            counts[decision] += 1
    for decision in decisions:
        if counts[decision]:
            print(f"{decision.kind} {decision.pattern} ({counts[decision]}): {decision.reason}")
        elif is_all:
            print(f"{args.decisions}:{decision.line}: matches nothing in Kafka {args.version}")
    only = "" if is_all else ", of messages alone"
    print(f"Kafka {args.version}: {len(found)} differences{only}, {undecided} undecided")
    return 1 if undecided else 0


if __name__ == "__main__":
    sys.exit(main())
