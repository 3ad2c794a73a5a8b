"""What brokers' own logs tell of groups: server logs and request logs."""
