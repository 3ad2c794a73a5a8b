"""Kafka's APIs: the table of served APIs, calls, handlers and error responses."""
