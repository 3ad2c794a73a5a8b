"""A client of ``coterie mcp`` in this process: no sockets, and each command without a process."""

import asyncio
from contextlib import asynccontextmanager

from mcp import Client

from coterie.cli.agent_server import Ran, server_of
from coterie.cli.agent_tools import Source
from support.commandline import coterie


async def run_here(words):
    ran = coterie(*words)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@asynccontextmanager
async def client_of(*log, **source):
    """Connect the package's own client to a server of a log."""
    async with Client(server_of(Source(tuple(map(str, log)), **source), run_here)) as client:
        yield client


async def pages(client, tool, arguments):
    """Return all pages of an answer."""
    found = []
    while True:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        found.append(result.structured_content)
        if "next" not in found[-1]:
            return found
        limit = {name: arguments[name] for name in ("limit",) if name in arguments}
        arguments = {**limit, "next": found[-1]["next"]}


def answer_of(log, tool, arguments, **source):
    """Return the pages of one answer."""

    async def ask():
        async with client_of(log, **source) as client:
            return await pages(client, tool, arguments)

    return asyncio.run(ask())
