"""Run commands: ``coterie`` in this process, ``coterie_process`` in a process of its own.

Both return the same status, standard output and standard error of ``coterie ARGS``, as
``test_process.py`` checks for each command. A process takes as long to start as most commands run.
Use one only to test signals, pipes, limits or another environment.
"""

import functools
import io
import json
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
    """Run ``coterie ARGS`` in this process; return the status, standard output and error."""
    from coterie.cli import main

    pyarrow_looks_for_pandas()
    command = ["coterie", *map(str, args)]
    out, err = Stream(sys.__stdout__), Stream(sys.__stderr__)
    with state_restored(cwd), patch.multiple(sys, argv=command, stdout=out.text, stderr=err.text):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
    return subprocess.CompletedProcess(command, status, out.written(), err.written())


def coterie_process(*args, **options):
    """Run ``coterie ARGS`` as a process, with options of ``subprocess.run``."""
    command = [*COTERIE, *map(str, args)]
    environment = os.environ | ENVIRONMENT
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


FORKS = """
import json, os, sys
from coterie.cli import main

results, ended = os.dup(1), []
{prepare}
for line in json.loads(sys.argv[1]):
    read, write = os.pipe()
    if not os.fork():
        os.dup2(write, 2)
        sys.argv = ["coterie", *line]
        sys.exit(main())
    os.close(write)
    with open(read, "rb") as error:
        text = error.read().decode()
    ended.append((os.waitstatus_to_exitcode(os.wait()[1]), text))
os.write(results, json.dumps(ended).encode())
"""


def coterie_forks(commands, prepare, **options):
    """Run commands, each in a fork of one process that did ``prepare``: status and error of each.

    They share what takes the time of a process, its start and imports.
    """
    lines = json.dumps([[str(word) for word in command] for command in commands])
    code = [sys.executable, "-c", FORKS.format(prepare=prepare), lines]
    ran = subprocess.run(code, stdout=subprocess.PIPE, check=True, **options)
    return [tuple(end) for end in json.loads(ran.stdout)]


class Stream:
    """A standard stream of a command: encodes like one of this process, and records the bytes."""

    def __init__(self, like):
        self.bytes = io.BytesIO()
        self.text = io.TextIOWrapper(self.bytes, like.encoding, like.errors)

    def written(self):
        """Return the output, decoded as ``subprocess`` decodes it."""
        self.text.flush()
        with io.TextIOWrapper(io.BytesIO(self.bytes.getvalue())) as text:
            return text.read()


def default_sigint():
    """Restore SIGINT; to be called in a process before the command starts.

    A shell starts background processes with SIGINT ignored. Child processes inherit that, and
    Python then ignores the signal.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def state_restored(cwd):
    """Give a command its folder and environment, and restore the state that ``main`` changes."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    finders, before = sys.meta_path[:], os.getcwd()
    with ExitStack() as after, patch.dict(os.environ, ENVIRONMENT), warnings.catch_warnings():
        if getattr(sys.modules.get("pyspark"), "__version__", "").startswith("4.0."):
            # It leaves its sockets to the collector; a process of its own would not warn.
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
    """Have pyarrow look for pandas now: it does so once, and a command hides pandas."""
    with suppress(ImportError):
        import pyarrow as pa

        pa.array([None])


def coterie_ok(*args, run=coterie, **options):
    """Run a command, and check that it succeeded."""
    result = run(*args, **options)
    assert result.returncode == 0, result.stderr
    return result


def fails(*args, status=1, says=(), run=coterie, **options):
    """Run a command, and check that it failed with the status and one line that has the texts."""
    result = run(*args, **options)
    assert result.returncode == status, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("coterie: ")
    for text in says if isinstance(says, tuple) else (says,):
        assert str(text) in lines[0], lines[0]
    return result


def folder_of(path):
    """Names in a folder, including hidden files."""
    return sorted(entry.name for entry in Path(path).iterdir())
