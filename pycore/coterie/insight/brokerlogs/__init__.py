"""What brokers' own logs say about groups: server logs and request logs."""
