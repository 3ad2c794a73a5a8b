"""Kafka's APIs by version: their fields, as a request log and a socket have them."""
