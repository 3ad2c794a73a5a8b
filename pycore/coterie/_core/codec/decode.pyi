"""Bytes to plain Python values by a layout; used by compiled code only."""
