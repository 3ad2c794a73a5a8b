"""The command line: ``coterie`` in this process, ``coterie_process`` in one of its own.

Both give the status, standard output and error of ``coterie ARGS``, and the same ones:
``test_process.py`` holds it for each command. A process takes as long to start as most commands
take to run, so it is for what only a process shows: signals, pipes, limits, another environment.
"""

import functools
import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

COTERIE = [sys.executable, "-c", "from coterie.cli import main; main()"]
ENVIRONMENT = {"PYTHONUNBUFFERED": "", "COLUMNS": "200"}


def coterie(*args, cwd=None):
    """Run ``coterie ARGS`` here and return what it said: status, standard output and error."""
    from coterie.cli import main

    pyarrow_looks_for_pandas()
    command = ["coterie", *map(str, args)]
    out, err = Said(sys.__stdout__), Said(sys.__stderr__)
    with state_kept(cwd), patch.multiple(sys, argv=command, stdout=out.text, stderr=err.text):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
    return subprocess.CompletedProcess(command, status, out.told(), err.told())


def coterie_process(*args, **options):
    """Run ``coterie ARGS`` as a process, by which ``subprocess.run`` may be told more."""
    command = [*COTERIE, *map(str, args)]
    environment = os.environ | ENVIRONMENT
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


class Said:
    """A standard stream of a command: encodes as one of this process, and keeps the bytes."""

    def __init__(self, like):
        self.bytes = io.BytesIO()
        self.text = io.TextIOWrapper(self.bytes, like.encoding, like.errors)

    def told(self):
        """Return what was written, decoded as ``subprocess`` decodes it."""
        self.text.flush()
        with io.TextIOWrapper(io.BytesIO(self.bytes.getvalue())) as text:
            return text.read()


def default_sigint():
    """Let a process hear SIGINT: to be called in it before the command starts.

    A shell starts what runs in the background with SIGINT ignored; processes inherit that, and
    Python then ignores it as well.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def state_kept(cwd):
    """Give a command its folder and environment; take back what ``main`` sets for a process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    finders, before = sys.meta_path[:], os.getcwd()
    with ExitStack() as after, patch.dict(os.environ, ENVIRONMENT), warnings.catch_warnings():
        if getattr(sys.modules.get("pyspark"), "__version__", "").startswith("4.0."):
            # It leaves its sockets to the collector; a process of its own says nothing of that.
            warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        after.callback(os.chdir, before)
        after.callback(setattr, sys, "unraisablehook", sys.unraisablehook)  # pytest's own
        for number, handler in handlers.items():
            after.callback(signal.signal, number, handler)
        if cwd is not None:
            os.chdir(cwd)
        try:
            yield
        finally:
            sys.meta_path[:] = finders


@functools.cache
def pyarrow_looks_for_pandas():
    """Let pyarrow find pandas now: it looks once, and a command hides pandas from it."""
    with suppress(ImportError):
        import pyarrow as pa

        pa.array([None])


def coterie_ok(*args, run=coterie, **options):
    """Run it, and hold that it ended well."""
    told = run(*args, **options)
    assert told.returncode == 0, told.stderr
    return told


def fails(*args, status=1, says=(), run=coterie, **options):
    """Run it, and hold that it ended with one clear line and the status."""
    told = run(*args, **options)
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
