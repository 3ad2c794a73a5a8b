"""A group's own history, played again: as it was, and under another protocol, release or setting.

``history`` turns the generations of a log into a scenario, ``play`` plays it with simulated
clients, ``variants`` changes it, ``result`` compares what came out.
"""
