"""Replay a whole log: the interface of engines, and the engine of this process."""
