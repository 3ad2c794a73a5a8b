"""A plugin of pytest that records which lines of the sources each test executes, and its time.

It runs in a copy (``copies.Copy.record``), whose compiled modules report the blocks of code that
run (``blocks.c``). Each process of pytest leaves two files in the folder ``FAULTS_RECORDING``: the
data of coverage.py, with a context for each test, and a pickle with the blocks. ``places.py`` reads
them.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

FOLDER, LIBRARY, SOURCES = "FAULTS_RECORDING", "FAULTS_BLOCKS", "FAULTS_SOURCES"
ROOM = 1 << 19  # blocks of one test
GROUP = re.compile(r"@\w+$")  # the group that pytest-xdist adds to a test's name
WARNINGS = ["no-data-collected", "module-not-measured", "module-not-imported", "no-sysmon"]


def pytest_configure(config: pytest.Config) -> None:
    """Record in each process that runs tests: with xdist, not in the one that hands them out."""
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])))


class Recorder:
    """The lines, blocks and seconds of each test of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}
        self.blocks: dict[str, bytes] = {}
        self.library = ctypes.CDLL(os.environ[LIBRARY])
        self.places = (ctypes.c_size_t * ROOM)()
        os.environ.setdefault("COVERAGE_CORE", "ctrace")  # sys.monitoring has no contexts
        self.coverage = coverage.Coverage(
            data_file=str(folder / f"lines.{os.getpid()}"),
            source=os.environ[SOURCES].split(os.pathsep),
            config_file=False,
            auto_data=False,
        )
        self.coverage.set_option("run:disable_warnings", WARNINGS)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count what runs, fixtures included, for this test."""
        name = GROUP.sub("", item.nodeid)
        self._take_blocks()
        self.coverage.switch_context(name)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")
            self.blocks[name] = self._take_blocks()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test's setup, call or teardown."""
        name = GROUP.sub("", report.nodeid)
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what was recorded."""
        self.coverage.stop()
        self.coverage.save()
        maps = Path("/proc/self/maps").read_text()
        with open(self.folder / f"blocks.{os.getpid()}", "wb") as file:
            pickle.dump({"seconds": self.seconds, "blocks": self.blocks, "maps": maps}, file)

    def _take_blocks(self) -> bytes:
        """Return the places of the blocks that ran since the last call, 8 bytes each."""
        taken = self.library.blocks_taken(self.places, ROOM)
        return bytes(memoryview(self.places).cast("B")[: 8 * taken])
