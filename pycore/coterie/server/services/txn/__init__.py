"""Transactions: the coordinator, the state of each transactional id, and its log."""
