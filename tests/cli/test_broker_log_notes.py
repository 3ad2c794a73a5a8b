"""When `explain` says that a broker's log explains no event."""

import pytest

from coterie.cli.explain import is_from
from coterie.insight.brokerlogs.lines import REQUESTS, SERVER


def row(*sources, reason=None, duration_source=None):
    causes = [{"source": source} for source in sources]
    return {"causes": causes, "reason": reason, "duration_source": duration_source}


@pytest.mark.parametrize(
    ("given", "from_server", "from_requests"),
    [
        (row(), False, False),
        (row("records"), False, False),
        (row("records", duration_source="records"), False, False),
        (row("records", SERVER), True, False),
        (row("records", REQUESTS), False, True),
        (row(reason="a member left"), True, False),  # only a server log has reasons
        (row("records", duration_source=SERVER), True, False),
    ],
)
def test_a_row_is_from_a_broker_log_that_gives_a_cause_a_reason_or_a_duration(
    given, from_server, from_requests
):
    assert (is_from(SERVER, given), is_from(REQUESTS, given)) == (from_server, from_requests)
