"""Answers about a partition in parts, each read by itself, as by several processes."""

from itertools import pairwise

from coterie.insight.records import log_parts
from coterie.insight.records.partition_view import PartitionView
from coterie.state.pickling import pack, unpack

WHAT = "test"


def sent(value):
    """The object as another process receives it."""
    return unpack(WHAT, pack(WHAT, value))


def surveyed(part, record_filters):
    """A part's survey as another process receives it; groups' records are sent separately."""
    result = log_parts.survey(part, record_filters)
    came = sent(result)
    for whole, arrived in zip(result.values(), came.values(), strict=True):
        for chunk in whole.group_log.chunks():
            arrived.group_log.spool.append(chunk)
    return came


def answer_in_parts(segments, cuts, question, parameters, options):
    """A question's rows, each part read by itself; the first segment of each is in ``cuts``."""
    view = PartitionView(0, segments, **options)
    bounds = [0, *sorted(cuts), len(segments)]
    runs = [segments[a:b] for a, b in pairwise(bounds) if b > a]
    record_filters = log_parts.record_filters_of(view, question, parameters)
    log_parts.join(view, [surveyed(tuple(run), record_filters) for run in runs])
    begun = [sent(one) for one in log_parts.second_readings(view, question, parameters, len(runs))]
    if begun:
        retained = [sent(log_parts.aggregate(*one)) for one in zip(runs, begun, strict=True)]
        log_parts.finish(view, question, parameters, retained)
    return list(question.rows(view, parameters))
