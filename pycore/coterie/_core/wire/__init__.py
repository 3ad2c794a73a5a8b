"""Frames of Kafka's wire protocol and back, by the table of ``coterie.wire``."""
