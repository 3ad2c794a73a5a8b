"""The histories of groups of real logs, for a rehearsal."""

from coterie.base.progress_bar import ProgressBar
from coterie.histories.rehearsal.history import read_history
from coterie.insight import answering
from coterie.insight.question_engine import QuestionRequest
from coterie.insight.questions import generations
from coterie.log.folders import find_segments
from support.golden_data import GOLDEN

INCIDENTS = GOLDEN / "incidents"
PLAYED = {"range", "roundrobin", "sticky", "cooperative-sticky", "consumer"}


def histories_of(path, *groups):
    """The history of each group of a log whose consumers are Kafka's."""
    ask, log = generations.Parameters(), find_segments((str(path),))
    request = QuestionRequest(generations.NAME, ask, log, frozenset(groups) or None)
    rows = {}
    for part in answering.answer(request, ProgressBar()):
        for row in part.rows:
            rows.setdefault(row["group_id"], []).append(row)
    for group, of_group in rows.items():
        if {row["protocol"] for row in of_group if row["members"]} & PLAYED:
            yield read_history(group, of_group)


def history_of(incident, group):
    (found,) = histories_of(INCIDENTS / incident / "log", group)
    return found
