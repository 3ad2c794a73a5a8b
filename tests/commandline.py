"""The command line, run as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

COTERIE = [sys.executable, "-c", "from coterie.cli import main; main()"]


def coterie(*args, cwd=None, **options):
    """Run ``coterie ARGS`` and return what it said: status, standard output and error."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "", "COLUMNS": "200"}
    command = [*COTERIE, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, **options
    )


def coterie_ok(*args, **options):
    """Run it, and hold that it ended well."""
    told = coterie(*args, **options)
    assert told.returncode == 0, told.stderr
    return told


def fails(*args, status=1, says=(), **options):
    """Run it, and hold that it ended with one clear line and the status."""
    told = coterie(*args, **options)
    assert told.returncode == status, told.stderr
    lines = told.stderr.splitlines()
    assert len(lines) == 1, told.stderr
    assert lines[0].startswith("coterie: ")
    for text in says if isinstance(says, tuple) else (says,):
        assert str(text) in lines[0], lines[0]
    return told


def folder_of(path):
    """Names in a folder, those of hidden files too."""
    return sorted(entry.name for entry in Path(path).iterdir())
