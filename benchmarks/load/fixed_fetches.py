"""A server that answers each Fetch with the same 50 MB from memory, in a thread per connection.

``python benchmarks/load/fixed_fetches.py PORT [SEND_BYTES]``: what the system takes to copy the
bytes of a process into sockets, with send buffers of this size (by default, the system chooses). A
server whose data is in its memory cannot take less CPU time for a byte. Any other request gets
twelve bytes.
"""

import contextlib
import socket
import sys
import threading

SIZE = 50 << 20
FETCH = b"\0\1"
RESPONSE = (SIZE + 4).to_bytes(4, "big") + bytes(4) + b"x" * SIZE


def serve(connection):
    with contextlib.suppress(OSError), connection, connection.makefile("rb") as file:
        while head := file.read(4):
            request = file.read(int.from_bytes(head, "big"))
            connection.sendall(RESPONSE if request[:2] == FETCH else b"\0\0\0\x08" + bytes(8))


def main(port, send_bytes=None):
    with socket.create_server(("127.0.0.1", port)) as server:
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            if send_bytes is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
