"""Partial states of a log, and the rows, tables and documents made from them."""
