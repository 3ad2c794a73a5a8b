"""Traces: read, run, recorded, compared, and imported from a broker's request log."""
