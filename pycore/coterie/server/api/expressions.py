"""Regular expressions of requests, with the messages of RE2/J, which Kafka uses."""

from __future__ import annotations

from coterie._core.coordinator.consumer.values import engine

# What RE2 reports, and what RE2/J does.
_OF_RE2J = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


class InvalidExpression(Exception):
    """An expression that does not compile; the message is that of RE2/J."""


def compiled(expression: str) -> object:
    """Return a compiled expression, whose ``fullmatch`` takes a text.

    Raises
    ------
    InvalidExpression
        It does not compile.
    coterie.CoterieError
        RE2 is not installed.
    """
    re2, options = engine()
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        text = error.args[0]
        reason = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).partition(
            ": "
        )[0]
        raise InvalidExpression(_OF_RE2J.get(reason, reason)) from None
