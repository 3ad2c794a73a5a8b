"""``python -m coterie``, and the command ``coterie``: the command line from its first moment."""

import os
import signal
import sys

INTERRUPTED = 130  # exit status, as of a shell's command that SIGINT ended


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, also while it is imported."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:  # else SIGINT is ignored, as in a shell's background
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    from coterie.cli import main as run_command_line

    try:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
