"""The herd of ``run.py`` on ``coterie serve`` and on kfake, franz-go's fake of a cluster, in turn.

    python benchmarks/load/beside_kfake.py [--rounds 30]

Needs Go, which builds ``benchmarks/peers/kfake``. Each round starts a fresh server of each kind.
Prints the times of the herd. They depend on how the joins of 500 connections meet the server's
turns: the group needs two or three generations, so one round says little.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import run as loads

HERD = "herd 500"
PEER = Path(__file__).parents[1] / "peers/kfake"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program, peer = loads.build(folder), Path(folder) / "kfake"
        subprocess.run(["go", "build", "-o", peer, "."], cwd=PEER, check=True)
        servers = {
            "coterie serve": [sys.executable, *loads.SERVE],
            "kfake": [str(peer), str(loads.PORT), "load:10"],
        }
        found = {server: [] for server in servers}
        for server, command in [*servers.items()] * options.rounds:
            with loads.running(command) as pid:
                result = loads.load(program, loads.PORT, loads.ROWS[HERD], 0, pid)
            if result["errors"]:
                raise SystemExit(f"{server}: {result['errors']} members were put out")
            found[server].append(result)
    print("| server | least ms | quarter | median | three quarters | most | generations | CPU ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for server, rounds in found.items():
        took = [1000 * one["seconds"] for one in rounds]
        quarters = statistics.quantiles(took, n=4)
        last = sorted({one["generation"] for one in rounds})
        cpu = 1000 * statistics.mean(one["server_cpu_s"] for one in rounds)
        print(f"| {server} | {min(took):.0f} | " + " | ".join(f"{q:.0f}" for q in quarters)
              + f" | {max(took):.0f} | {last[0]} to {last[-1]} | {cpu:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
