"""The words about why a group is gone: what removed it, who asked for it, and which log says so."""

import pytest

from coterie.insight.questions.explain_removals import Reason, reason_of, set_reason
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine

REQUEST = BrokerLogLine(
    "g", "group_deleted", 7, REQUESTS, client_id="admin", client_host="/10.0.0.1", detail="User:a"
)
LINE = BrokerLogLine("g", "group_deleted", 8, SERVER, client_id="other")
EXPIRED = BrokerLogLine("g", "expired", 9, SERVER)


@pytest.mark.parametrize(
    ("reason", "offsets", "text"),
    [
        (reason_of([EXPIRED]), 2, "removed with 2 offsets: its last offsets expired [server log]"),
        (reason_of([EXPIRED]), 0, "removed: it had no offsets left [server log]"),
        (reason_of([LINE]), 0, "deleted [server log]"),
        (reason_of([LINE]), 1, "deleted with 1 offset [server log]"),
        (Reason("group_deleted", "because"), 1, "removed with 1 offset: because"),
    ],
)
def test_the_row_of_a_deletion_says_what_went_and_why(reason, offsets, text):
    row = {}
    set_reason(row, reason, offsets)
    assert row["cause"] == f"the group was {text}"
    (cause,) = row["causes"]
    assert cause["what"] == reason.what


def test_the_request_names_who_asked_and_the_line_of_the_server_stands_beside_it():
    for lines in ([REQUEST, LINE], [LINE, REQUEST]):
        reason = reason_of([*lines, EXPIRED])  # of another kind: it is no evidence
        assert (reason.what, reason.request, reason.line) == ("group_deleted", REQUEST, LINE)
        row = {}
        set_reason(row, reason, 3)
        assert row["cause"].startswith("the group was deleted with 3 offsets by admin")
        assert row["cause"].endswith("as User:a [request log]")
        (cause,) = row["causes"]
        who = cause["client_id"], cause["client_host"], cause["detail"], cause["source"]
        assert who == ("admin", "/10.0.0.1", "User:a", REQUESTS)


def test_of_several_lines_of_one_log_the_first_counts():
    later = LINE._replace(client_id="later")
    assert reason_of([LINE, later]).line == LINE
