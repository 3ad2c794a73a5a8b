"""How long a test waits for another process or thread: no verdict hangs on a machine's speed."""

HANG_S = 1800  # only what never comes takes that long, however busy the machine
