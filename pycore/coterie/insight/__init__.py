"""What an on-call engineer asks of a log: one module for each question, on either engine.

A question is a module with ``NAME``, that of the module; ``FIELDS``, names and types of its rows
(see ``fields``); ``Ask``, a frozen dataclass of its parameters; and ``rows(facts, ask)``, a pure
function that yields dicts for one partition of the topic. ``coterie.insight.asking`` and
``coterie_spark.insight`` call it alike: all of a group lies in one partition, so each can be asked
by itself.

``facts`` reads a partition; ``reading`` gives its records as numpy columns (``commits``), a piece
of the log at a time. A question keeps of each piece what its answer needs: memory grows with keys
and findings, not with records. One with ``tallies(facts, ask)`` can be asked of parts of a
partition (``parts``). Times in rows are epoch ms; what is not known is None.
"""
