"""The coordinator in Python's terms: requests, pending answers, settings, clocks."""
