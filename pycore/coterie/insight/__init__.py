"""Questions about a log, for every engine. Each package uses only those listed before it.

``fields``, ``tables``  rows for people and programs: their fields, tables, CSV, JSON
``records``     a partition of the topic, read in pieces as columns; several by threads;
                copies of one log from several brokers, for ``coterie compare``
``groups``      metadata records: generations and their causes
``offsets``     commits: offsets over time, rewinds, divergence from a live state
``questions``   one module for each question, and brokers' own logs
``question_engine``  a question, its engines, and the answer of each partition
``answering``   the whole answer, with each group once, also if it is in several partitions

A question is a module with

- ``NAME``, the module's name;
- ``FIELDS``, the names and types of its rows (``fields``);
- ``Parameters``, a frozen dataclass;
- ``rows(view, parameters)``, a pure function that yields dicts for one partition of the topic.

``coterie.insight.question_engine`` and ``coterie_spark.insight`` both call it. All records of a
group are in one partition, so each partition is answered by itself; ``answering`` sees to groups
that are not.

``records.partition_view`` reads a partition; ``records.log_reader`` gives its records as numpy
columns, a piece of the log at a time. A question computes what it needs from each piece, so memory
grows with keys and findings, not with records. Those of several questions
with ``aggregates(view, parameters)`` can be filled together. Times in rows are epoch ms; unknown
values are None.
"""
