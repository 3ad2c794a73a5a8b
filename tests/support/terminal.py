"""Run commands at a pseudo terminal of some width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from unittest.mock import patch

from support.commandline import COTERIE, pyarrow_looks_for_pandas, state_restored

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def new_terminal(columns):
    """Open a terminal of some width; return both of its sides."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    return master, slave


def process_at_terminal(columns, *args, until, cwd=None):
    """Run ``coterie ARGS`` as a process at a terminal, end it after ``until``; return the text."""
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    master, slave = new_terminal(columns)
    written = b""
    command = [*COTERIE, *args]
    with subprocess.Popen(command, stdout=slave, stderr=slave, cwd=cwd, env=environment) as process:
        os.close(slave)
        try:
            while data := os.read(master, 1 << 16):
                written += data
                if until.encode() in written:
                    process.terminate()
        except OSError:  # the end
            pass
    os.close(master)
    return written.decode().replace("\r\n", "\n")


def at_terminal(columns, *args, cwd=None):
    """Run ``coterie ARGS`` at a terminal; return the status, and all that the terminal got."""
    from coterie.cli import main

    pyarrow_looks_for_pandas()
    command = ["coterie", *map(str, args)]
    master, slave = new_terminal(columns)
    written = []
    reader = threading.Thread(target=read_all, args=(master, written))
    reader.start()
    try:
        with (
            open(slave, "w", encoding="utf-8", buffering=1) as out,
            state_restored(cwd),
            patch.multiple(sys, argv=command, stdout=out, stderr=out, __stdout__=out),
        ):
            os.environ["TERM"] = "xterm-256color"
            for name in ("COLUMNS", "NO_COLOR"):
                os.environ.pop(name, None)
            try:
                main()
                status = 0
            except SystemExit as end:
                status = end.code or 0
    finally:
        reader.join()
        os.close(master)
    text = b"".join(written).decode("utf-8", "replace").replace("\r\n", "\n")
    return subprocess.CompletedProcess(command, status, text, "")


def read_all(master, written):
    """Read a terminal until its other side is closed."""
    try:
        while data := os.read(master, 1 << 16):
            written.append(data)
    except OSError:  # Linux has no end of file there
        return


def plain(text):
    """Return a text without colours."""
    return ESCAPES.sub("", text)
