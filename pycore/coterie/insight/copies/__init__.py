"""Copies of one log from several brokers: how far they agree, and what only one of them has."""
