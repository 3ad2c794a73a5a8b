"""Answers about a partition that is read in the smallest pieces: a batch each."""

from unittest import mock

from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import PartitionView


def answer_in_pieces(segments, question, parameters, options):
    """A question's rows, as if each batch were a piece of the log."""
    with mock.patch.object(log_reader, "READ_PIECE_BYTES", 1):
        return list(question.rows(PartitionView(0, segments, **options), parameters))
