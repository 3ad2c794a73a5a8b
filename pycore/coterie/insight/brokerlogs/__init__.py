"""Lines about groups in brokers' own logs: server logs and request logs."""
