"""Questions about golden logs for the tests on Spark: name, case, parameters."""

from coterie.insight.offsets.end_offsets import EndOffsets, Sample

RESET_CLI = 1795237385000
QUESTIONS = [
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
