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

from support.commandline import pyarrow_looks_for_pandas, state_restored

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def at_terminal(columns, *args, cwd=None):
    """Run ``coterie ARGS`` at a terminal; return the status, and all that the terminal got."""
    from coterie.cli import main

    pyarrow_looks_for_pandas()
    command = ["coterie", *map(str, args)]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
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
