"""Recorded answers: what every question, view and table said of many logs, as digests."""
