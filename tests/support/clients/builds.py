"""Build the programs of clients once, into build/clients/CLIENT.

A program is built again after a source changes. If the toolchain is missing, or a registry does not
deliver the packages, the test is skipped by name.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.clients.scenarios import SCENARIOS, Client

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build" / "clients"
OTHERS = pytest.mark.skipif(
    not os.environ.get("COTERIE_ALL_CLIENTS"), reason="needs COTERIE_ALL_CLIENTS=1"
)


def rows(*without, **facts):
    """The scenarios of a client, without those it does not support, and with other facts."""
    return {name: row for name, row in SCENARIOS.items() if name not in without} | facts


def sources(folder):
    """The files of a program, without the output of its build tool."""
    return [each for each in folder.rglob("*") if each.is_file() and "target" not in each.parts]


@functools.cache
def built(language, client, fetch, make, program):
    """The path of a program; fetches its packages and builds it if necessary."""
    tool = make[0]
    if shutil.which(tool) is None:
        pytest.skip(f"no {client}: {tool} is not installed")
    folder, home = HERE / language / client, BUILD / client
    made, stamp = home / program, home / ".made"
    newest = max(each.stat().st_mtime for each in sources(folder))
    if made.exists() and stamp.exists() and stamp.stat().st_mtime >= newest:
        return made
    home.mkdir(parents=True, exist_ok=True)
    if language == "node":  # the packages must be beside the program
        for each in sources(folder):
            shutil.copy(each, home)
        folder = home
    environment = {**os.environ, "GOTOOLCHAIN": "local", "CARGO_TARGET_DIR": str(home)}
    result = run(fetch, folder, environment)
    if result.returncode:
        pytest.skip(f"no {client}: its packages cannot be had: {result.stderr.strip()[-300:]}")
    result = run([part.format(made=made) for part in make], folder, environment)
    assert result.returncode == 0, result.stderr[-8000:]
    stamp.touch()
    return made


def run(command, folder, environment):
    """Run a build tool."""
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def go(client, of=None):
    """A client in Go."""
    fetch, make = ("go", "mod", "download"), ("go", "build", "-o", "{made}", ".")
    return Client([built("go", client, fetch, make, "program")], of or rows())


def node(client, of=None):
    """A client in JavaScript."""
    fetch = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts")
    program = built("node", client, fetch, ("node", "--check", "program.js"), "program.js")
    return Client(["node", program], of or rows())


def rust(client, of=None):
    """A client in Rust."""
    fetch, make = ("cargo", "fetch", "--locked"), ("cargo", "build", "--locked", "--offline")
    return Client([built("rust", client, fetch, make, "debug/program")], of or rows())
