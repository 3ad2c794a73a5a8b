"""Check that a Spark master can be reached, before a JVM is started. Imports no Spark."""

from __future__ import annotations

import socket

from coterie.errors import CoterieError

CONNECT_S = 10.0


def check_master(master: str) -> None:
    """Raise if no master can be reached at a URL; Spark itself would try for a minute.

    Of several masters (``spark://one:7077,two:7077``), one is enough.
    """
    if not master.startswith("spark://"):
        return
    refused = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            refused.append(f"{place}: no HOST:PORT")
            continue
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
                return
        except (OSError, OverflowError) as error:  # OverflowError: no port has that number
            refused.append(f"{place}: {getattr(error, 'strerror', None) or error}")
    raise CoterieError(
        f"no master of Spark answers at {master} ({'; '.join(refused)});"
        " see whether it runs, and give its URL as it says it itself: spark://HOST:PORT"
    )
