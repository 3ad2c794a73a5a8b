"""Bytes of Connect's metadata, by Kafka's schema.

Source of the layouts: ConnectProtocol.java, IncrementalCooperativeConnectProtocol.java.
"""

import struct


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def work(**connectors):
    """A list of connectors, each with its tasks."""
    parts = [
        text(name) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
        for name, tasks in connectors.items()
    ]
    return struct.pack(">i", len(parts)) + b"".join(parts)


def assignment(version, *lists, offset=5, error=0, delay=b""):
    head = struct.pack(">hh", version, error) + text("lead") + text("http://l/")
    return head + struct.pack(">q", offset) + b"".join(lists) + delay


def state(version, offset, running=None):
    data = struct.pack(">h", version) + text("http://w/") + struct.pack(">q", offset)
    if version == 0:
        return data
    return data + struct.pack(">i", -1 if running is None else len(running)) + (running or b"")
