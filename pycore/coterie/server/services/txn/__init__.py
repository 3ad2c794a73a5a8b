"""Transactions: the state of each transactional id, and the log in which it is kept."""
