"""Questions for the tests on Spark, and their rows in this process."""

from coterie.insight.answering import answer
from coterie.insight.fields import arrow_schema, arrow_table
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import QuestionRequest, fields_of, find_question
from coterie.state.replay_engine import Silent
from coterie_spark.replay_job.arrow import spark_schema, to_spark
from support.grown_topic import GROWN_MS, MINUTE

RESET_CLI = 1795237385000
QUESTIONS = [  # name, golden log, parameters
    ("expire", "transactions", {"now_ms": RESET_CLI, "what_if_ms": (5000,)}),
    ("explain", "basic", {"flap_count": 2}),
    ("explain", "kip848", {}),
    ("growth", "compacted", {"every_ms": 10_000}),
    ("audit", "basic", {"no_progress": 5}),
    ("lag", "transactions", {"ends": EndOffsets(False, {("in", 0): (Sample(None, 9000),)})}),
    ("undo", "basic", {"at_ms": RESET_CLI}),
    ("undo", "transactions", {"at_ms": RESET_CLI}),
    ("metrics", "basic", {"group_filter": "mix"}),
]
OF_GROWN_TOPIC = [  # all of them, about the log of support.grown_topic
    ("audit", {}),
    ("expire", {}),
    ("explain", {}),
    ("growth", {}),
    ("lag", {"ends": EndOffsets(False, {("t", 0): (Sample(None, 600),)})}),
    ("metrics", {}),
    ("undo", {"at_ms": GROWN_MS + 5 * MINUTE}),
]


def arguments_of(parameters):
    """The arguments of ``coterie_spark`` for a question's parameters."""
    return {"at" if key == "at_ms" else key: value for key, value in parameters.items()}


def rows_here(path, name, parameters, **about):
    """The rows of a question in this process, in Spark's types, as sorted text."""
    question = find_question(name)
    request = QuestionRequest(name, question.Parameters(**parameters), (str(path),), **about)
    rows = [row for part in answer(request, Silent()) for row in part.rows]
    schema = spark_schema(arrow_schema(fields_of(question)))
    return sorted(map(repr, to_spark(arrow_table(fields_of(question), rows), schema).to_pylist()))
