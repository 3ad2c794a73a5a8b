"""The HTTP interfaces of a server: control for tests, and metrics."""
