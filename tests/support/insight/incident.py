"""The recorded incident ``protocols``, and its written truth; see its README.md."""

import json
from functools import cache

from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN

FOLDER = GOLDEN / "incidents" / "protocols"
SERVER, REQUESTS = FOLDER / "server.log.gz", FOLDER / "kafka-request.log.gz"
LOGS = ("--server-log", SERVER, "--request-log", REQUESTS)


@cache
def truth():
    """What was ordered and what the clients said, in order of time."""
    return json.loads((FOLDER / "truth.json").read_text())


def told(what, name):
    """The one event of this kind that a client has: the first."""
    return next(event for event in truth() if (event["what"], event["name"]) == (what, name))


def span(first, last):
    """From when to when something happened, as events (what, name) enclose it."""
    return told(*first)["at_ms"], told(*last)["at_ms"]


def within(row, first, last):
    """Whether a row's time lies between two events."""
    begin, end = span(first, last)
    return begin <= row["timestamp"] <= end


def asked(command, *options):
    """The rows of a question, by one run of the command on the recorded log."""
    run = coterie if command == "audit" else coterie_ok  # which ends with 1 if it finds something
    return json.loads(run(command, FOLDER, *options, "--format", "json").stdout)
