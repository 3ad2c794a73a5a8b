"""Each conversation recorded with a broker 3.9.1 and with 4.1.1, played in this process.

Each request that the broker never answered, or answered with a close alone, has a line in the log,
or is counted there with others of its kind. So is each failed login; there are no other lines.
"""

import re
from collections import Counter

import pytest

from coterie.server.rate_limited_log import EVERY_MS
from support.golden_data import SHARED
from support.server import playing

FAILED = "authentication failed"
RECORDED = [
    pytest.param(release, path.stem, id=f"{release}-{path.stem}")
    for release, folder in playing.FOLDERS.items()
    for path in sorted((SHARED / "golden/wire" / folder).glob("*.jsonl"))
]


@pytest.mark.parametrize(("release", "name"), RECORDED or [("3.9", "none")])
def test_a_conversation_with_a_broker_goes_as_it_was_recorded(release, name):
    head, steps = playing.conversations(release)[name]
    server = playing.Server(playing.CONFIGS[head["config"]], kafka=release)
    playing.run(server, steps)
    server.run(2 * EVERY_MS)
    failures = [line for line in server.log_lines if line.partition("1: ")[2].startswith(FAILED)]
    others = [line for line in server.log_lines if line not in failures]
    assert sum(map(how_many, failures)) == failed_logins(steps), server.log_lines
    assert sum(map(how_many, others)) == unheard(steps, release), server.log_lines


def failed_logins(steps):
    """How many answers refuse a mechanism or a token."""
    return sum(
        step["step"] == "receive"
        and step["api"] in ("SaslHandshake", "SaslAuthenticate")
        and step["body"]["errorCode"] in (33, 58)
        for step in steps
    )


def how_many(line):
    more = re.match(r"(\d+) more like that in 10 s, the last: /127.0.0.1: ", line)
    assert more or line.startswith("/127.0.0.1: "), line
    return int(more[1]) if more else 1


def unheard(steps, release):
    """How many requests were never answered, and how many connections closed in their place."""
    found, open_requests = 0, Counter()
    for step in steps:
        kind, peer, body = step["step"], step.get("connection"), step.get("body") or {}
        if kind in ("send", "send_bytes"):
            silent = step.get("api") == "OffsetFetch" and step["version"] >= 8 and release == "3.9"
            found += silent and not body["groups"]
            open_requests[peer] += body.get("acks") != 0
        elif kind in ("receive", "receive_bytes"):
            open_requests[peer] -= 1
        elif kind == "closed":
            found += open_requests[peer] > 0
    return found
