"""What an on-call engineer asks of a log, on either engine. Each shelf uses those above it.

``render``      rows for people and programs: their fields, tables, CSV, JSON
``records``     a partition of the topic: read in pieces, by threads or in parts, as columns
``groups``      what metadata records tell: generations and their causes
``offsets``     what commits tell: offsets over time, rewinds, how far apart
``brokerlogs``  what brokers' own logs tell
``questions``   one module for each question
``asking``      how a question is put to a log

A question is a module with ``NAME``, that of the module; ``FIELDS``, names and types of its rows
(``render.fields``); ``Ask``, a frozen dataclass of its parameters; and ``rows(facts, ask)``, a pure
function that yields dicts for one partition of the topic. ``coterie.insight.asking`` and
``coterie_spark.insight`` call it alike: all of a group lies in one partition, so each can be asked
by itself.

``records.partition_view`` reads a partition; ``records.log_reader`` gives its records as numpy
columns, a piece of the log at a time. A question keeps of each piece what its answer needs: memory
grows with keys and findings, not with records. One with ``aggregates(facts, ask)`` can be asked of
parts of a partition (``records.log_parts``). Times in rows are epoch ms; what is not known is None.
"""
