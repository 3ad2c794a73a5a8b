"""Listeners and connections."""
