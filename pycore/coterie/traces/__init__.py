"""Traces: run, record and compare them, or import a broker's request log."""
