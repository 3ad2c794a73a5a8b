"""What simulated clients do often: requests, waits, looks for records."""
