"""A monitor with a memory: follows a log, keeps its state, and serves it over HTTP.

A step reads what the files have grown by (``growth``), and nothing else: the fold and the
aggregates of each partition stay in memory (``live_partition``). What was counted survives a
restart, and the compaction of the log (``totals``, ``snapshot``). Pages and questions are answered
from the files themselves (``web``).
"""
