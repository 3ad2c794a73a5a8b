"""Connections, with sockets and without."""
