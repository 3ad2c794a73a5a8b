"""What stands beside a server: control over HTTP, metrics."""
