"""A server in Python that only splits frames and answers each with the same bytes.

``python benchmarks/load/fixed_server.py PORT``: what the loop itself costs, on asyncio, or uvloop
where it is installed. ``coterie serve`` cannot be faster than this on the same loop.
"""

import asyncio
import sys

REST = b"\0" * 8


class Fixed(asyncio.Protocol):
    def __init__(self):
        self.buffer = bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        buffer, at, answers = self.buffer, 0, []
        while len(buffer) - at >= 12:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
            if len(buffer) < end:
                break
            answers.append(b"\0\0\0\x0c" + buffer[at + 8 : at + 12] + REST)
            at = end
        del buffer[:at]
        if answers:
            self.transport.write(b"".join(answers))


async def serve(port):
    server = await asyncio.get_running_loop().create_server(Fixed, "127.0.0.1", port)
    print("listening", flush=True)
    await server.serve_forever()


def main(port):
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(port))
    else:
        uvloop.run(serve(port))


if __name__ == "__main__":
    main(int(sys.argv[1]))
