"""`coterie serve` as a process."""

import os
import subprocess
from contextlib import contextmanager

from support.commandline import COTERIE, ENVIRONMENT, default_sigint
from support.server.playing import play


@contextmanager
def serving(*args, environment=None):
    """A server that is ready, with its lines on standard output."""
    command = [*COTERIE, "serve", *args]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | ENVIRONMENT | (environment or {}), preexec_fn=default_sigint,
    )  # fmt: skip
    try:
        lines = []
        while not lines or lines[-1] != "ready":
            line = server.stdout.readline()
            assert line, server.stderr.read()
            lines.append(line.rstrip("\n"))
        yield server, lines
    finally:
        server.kill()
        server.communicate()


def connect(line):
    """Connect to the address of a line ``listening PROTOCOL HOST:PORT``."""
    host, _, port = line.split()[2].rpartition(":")
    return play().Connection((host.strip("[]"), int(port)))
