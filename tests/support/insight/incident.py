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
    """The orders to the clients and their reports, in order of time."""
    return json.loads((FOLDER / "truth.json").read_text())


def told(what, name):
    """The first event of this kind of a client."""
    return next(event for event in truth() if (event["what"], event["name"]) == (what, name))


def span(first, last):
    """The times of two events, (what, name) each."""
    return told(*first)["at_ms"], told(*last)["at_ms"]


def within(row, first, last):
    """Whether a row's time is between two events."""
    begin, end = span(first, last)
    return begin <= row["timestamp"] <= end


def asked(command, *options):
    """The rows of a question's command on the recorded log."""
    run = coterie if command == "audit" else coterie_ok  # which ends with 1 if it finds something
    return json.loads(run(command, FOLDER, *options, "--format", "json").stdout)
