"""Put the timeline of a run into the report of the test that found something in it.

Under Hypothesis it becomes a note of the smallest failing history. pytest's plugin takes
:data:`latest` for tests without Hypothesis.
"""

from __future__ import annotations

import sys
from typing import Any

from coterie.base.terminal import report_text

NOTE_MARGIN = 8  # "E       ", which pytest puts before the lines of a note


class Latest:
    """The last list that was found not empty outside of Hypothesis; None: none."""

    outcome: Any = None
    items: Any = None

    def take(self) -> str | None:
        """Return the timeline and forget it."""
        outcome, items = self.outcome, self.items
        self.outcome = self.items = None
        return None if outcome is None else report_text(outcome.timeline(items))


latest = Latest()


def report(outcome: Any, items: Any) -> None:
    """Show the timeline of a run if the test that is running fails."""
    control = sys.modules.get("hypothesis.control")
    if control is not None and control.currently_in_test_context():
        if control.should_note():
            control.note(report_text(outcome.timeline(items), NOTE_MARGIN))
    else:
        latest.outcome, latest.items = outcome, items
