"""Time and memory of a rehearsed day by the number of members, with 1,000 partitions.

    python benchmarks/rehearse_by_members.py [MEMBERS...]

The day: all start, 40 of them crash, stop polling or restart one by one, and a deploy restarts a
fifth of all, 5 s apart. Each size is played in a process of its own: as it was, and under the
consumer protocol. Prints the seconds of CPU of each play, and the most memory of the process above
what it has before.
"""

import random
import resource
import subprocess
import sys
import time

from coterie.histories.rehearsal.history import LoggedHistory
from coterie.histories.rehearsal.result import outcomes
from coterie.histories.rehearsal.variants import read_variant

MEMBERS = (100, 250, 500)
PARTITIONS = 1_000
DAY_MS = 86_400_000
SINGLE = 40


def op(kind, number, at):
    name = f"c{number:03}"
    fields = {"at": at, "op": kind, "after": 0, "slack_ms": 0, "consumer": name}
    if kind == "start":
        fields["subscription"] = {"orders": 1}
        fields["config"] = {
            "session.timeout.ms": 45_000,
            "max.poll.interval.ms": 300_000,
            "partition.assignment.strategy": "cooperative-sticky",
            "client.id": name,
            "member.id": f"{name}-{at}",
        }
    return fields


def day_of(members):
    """A history without the log's records: nothing is compared."""
    draw = random.Random(members)
    ops = [op("start", number, number * 10) for number in range(members)]
    for step in range(SINGLE):
        at = (step + 1) * DAY_MS // (2 * SINGLE)
        number = draw.randrange(members)
        ops.append(op(draw.choice(["close", "crash", "pause"]), number, at))
        ops.append(op("start", number, at + 400_000))
    for place in range(members // 5):
        at = DAY_MS * 3 // 4 + place * 5_000
        ops += [op("close", place, at), op("start", place, at + 2_000)]
    ops.sort(key=lambda one: one["at"])
    return LoggedHistory("g", 0, {"orders": PARTITIONS}, ops=ops)


def measure(members):
    of = day_of(members)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    for outcome in outcomes(of, [read_variant("protocol=consumer")], plays=1, timelines=True):
        row, now = outcome.row, time.process_time()
        grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
        print(
            f"{members:>7,}  {row['variant']:<18}  {row['rebalances_most']:>10,}  "
            f"{(now - began) / row['plays']:>6.1f}  {grown_mib:>6.0f}",
            flush=True,
        )
        began = now


def main(sizes):
    print("MEMBERS  VARIANT             REBALANCES   CPU s     MiB", flush=True)
    for members in sizes:
        subprocess.run([sys.executable, __file__, "--one", str(members)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(int(sys.argv[2]))
    else:
        main([int(text) for text in sys.argv[1:]] or MEMBERS)
