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
    """The orders to the clients, and their events, in order of time."""
    return json.loads((FOLDER / "truth.json").read_text())


def client_event(what, name):
    """The first event of this kind that a client has."""
    return next(event for event in truth() if (event["what"], event["name"]) == (what, name))


def span(first, last):
    """The times of two events (what, name) that enclose something."""
    return client_event(*first)["at_ms"], client_event(*last)["at_ms"]


def within(row, first, last):
    """Whether a row's time is between two events."""
    begin, end = span(first, last)
    return begin <= row["timestamp"] <= end


def command_rows(command, *options):
    """The rows of a question, by one run of the command on the recorded log."""
    run = coterie if command == "audit" else coterie_ok  # `audit` exits with 1 if it has findings
    return json.loads(run(command, FOLDER, *options, "--format", "json").stdout)
