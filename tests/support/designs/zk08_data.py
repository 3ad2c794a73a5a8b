"""The golden scenarios of Kafka 0.8.2.2, stripped of what is expected, and how they are judged."""

import functools
import importlib.util
import json

from support.golden_data import SHARED

FOLDER = SHARED / "golden" / "zk08"
GIVEN = ("format", "version", "name", "config", "events")


@functools.cache
def golden(path):
    """What a golden file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def files():
    """Paths of the golden scenarios."""
    return sorted(FOLDER.glob("*.json"))


def stripped(path):
    """A scenario without anything that real consumers did."""
    return {key: golden(path)[key] for key in GIVEN}


@functools.cache
def judge():
    """The comparison that is handed over with the golden data: yields what differs."""
    spec = importlib.util.spec_from_file_location(
        "compare_zk08", SHARED / "tools" / "compare_zk08.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.judge


def differences(path, points):
    """What differs between a golden file and points, as lines."""
    return list(judge()(golden(path), {"points": points}))
