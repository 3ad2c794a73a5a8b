"""When `explain` says that a broker's log explains no event."""

import pytest

from coterie.cli.explain import is_from, say_unmatched
from coterie.insight.questions.explain import COMMITS, SUMMARIES
from coterie.insight.questions.server_log import LEFT, REFUSED
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from support.commandline import coterie_ok
from support.log_writer import batch, commit
from support.request_lines import line


def row(*sources, reason=None, duration_source=None, event="generation", timestamp=2000):
    causes = [{"source": source} for source in sources]
    fields = {"causes": causes, "reason": reason, "duration_source": duration_source}
    return fields | {"event": event, "timestamp": timestamp}


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


@pytest.mark.parametrize(
    ("lines", "rows", "has_note"),
    [
        ([LEFT], [row("records")], True),
        ([], [row("records")], False),
        ([LEFT, REFUSED], [row("records")], False),  # a refused join is reported by itself
        ([LEFT], [row("records"), row("records", SERVER)], False),
        ([LEFT], [row("records", timestamp=None)], False),
        ([LEFT], [row("records", event=event) for event in (*SUMMARIES, COMMITS)], False),
        ([LEFT], [], False),
    ],
)
def test_a_broker_log_that_could_explain_an_event_and_explains_none_is_told(
    capsys, lines, rows, has_note
):
    """Commits and summaries are no events that a line could explain."""
    at_ms = iter(range(7000, 9000, 1000))
    say_unmatched(SERVER, [BrokerLogLine("g", what, next(at_ms), SERVER) for what in lines], rows)
    notes = capsys.readouterr().err
    assert bool(notes) == has_note
    if has_note:
        assert (
            "the server log explains no event: its lines are of 1970-01-01T00:00:07.000Z" in notes
        )
        assert "the events of 1970-01-01T00:00:02.000Z" in notes


@pytest.mark.parametrize(("options", "is_named"), [((), True), (("--group", "g"), False)])
def test_a_group_with_refused_joins_alone_is_named_unless_others_are_chosen(
    tmp_path, options, is_named
):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5)]))
    refused = {"errorCode": 30, "memberId": "", "generationId": -1}
    request = {"groupId": "secret", "memberId": "", "protocolType": "consumer",
               "protocols": [{"name": "range", "metadata": ""}]}  # fmt: skip
    (tmp_path / "requests.log").write_text(line("JOIN_GROUP", 9, request, refused, 1) + "\n")
    err = coterie_ok("explain", folder, "--request-log", tmp_path / "requests.log", *options).stderr
    note = (
        "coterie: group 'secret' has no record, but joins to it were refused: "
        "1 x GROUP_AUTHORIZATION_FAILED, 2026-01-01T00:00:00.000Z\n"
    )
    assert err == note * is_named
