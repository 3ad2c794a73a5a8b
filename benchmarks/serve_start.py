"""From a fresh process of ``coterie serve`` to the first assignment, beside ``python -c pass``.

``python benchmarks/serve_start.py [ROUNDS]``: the fewest and the median milliseconds, by the clock
and of the process's CPU time until then. Linux: the CPU time of a process that runs is in /proc.
"""

import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

from coterie import wire

MAIN = "from coterie.cli import main; main()"
SERVE = [sys.executable, "-c", MAIN, "serve", "--listen", "127.0.0.1:0", "--topic", "t:3",
         "--set", "group.initial.rebalance.delay.ms=0"]  # fmt: skip
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def ask(peer, key, version, body):
    """Ask one thing of a server and read its answer."""
    frame = wire.encode_request(key, version, body)
    peer.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
    return wire.decode_response(key, version, peer.recv(size, socket.MSG_WAITALL)).body


def assignment(address):
    """Join a group as its only member; what the leader, itself, has assigned."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        body = {"groupId": "g", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000,
                "protocolType": "consumer", "protocols": [{"name": "range"}]}  # fmt: skip
        joined = ask(peer, 11, 3, body)
        member = {"groupId": "g", "generationId": joined["generationId"],
                  "memberId": joined["memberId"]}  # fmt: skip
        assignments = [{"memberId": joined["memberId"], "assignment": b"mine"}]
        return ask(peer, 14, 2, member | {"assignments": assignments})["assignment"]


def cpu_ms(pid):
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def serve():
    """Start a server and join; milliseconds by the clock, and of CPU."""
    began = time.perf_counter()
    with subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[2]
            assert assignment(address) == b"mine"
            return 1000 * (time.perf_counter() - began), cpu_ms(server.pid)
        finally:
            server.kill()


def plain():
    """Start Python and do nothing."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return 1000 * (time.perf_counter() - began), 1000 * used


def main(rounds):
    """Take turns, so that both meet the same machine."""
    found = {"python -c pass": [], "coterie serve": []}
    for _ in range(rounds):
        found["python -c pass"].append(plain())
        found["coterie serve"].append(serve())
    for name, times in found.items():
        for what, values in zip(("clock", "CPU"), zip(*times, strict=True), strict=True):
            least, middle = min(values), statistics.median(values)
            print(f"{name}, {what}: {least:.0f} ms at least, {middle:.0f} ms in the median")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
