"""The records of a partition of the topic, read in pieces as numpy columns."""
