"""The time limit for other processes and threads, so long that only a hang exceeds it."""

HANG_S = 1800  # however busy the machine
