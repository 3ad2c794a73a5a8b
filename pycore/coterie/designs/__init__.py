"""The designs before today's coordinator, simulated on a virtual clock, and the same beside it."""
