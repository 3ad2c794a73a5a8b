"""What all brokers of a server share: topics, groups, transactions, authentication."""
