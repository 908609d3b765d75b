"""An agent with the tools of an MCP server; this file is both.

From this folder: ``headrace dev --agents mcp_clock:clock``. Needs ``headrace[mcp]``.
"""

import sys
from collections.abc import AsyncIterator

from mcp.server import MCPServer

from headrace import Emission, RunContext, agent
from headrace.adapters import McpServer

server = MCPServer("clock")


@server.tool()
def add_minutes(time: str, minutes: int) -> str:
    """Add minutes to a time such as 10:30."""
    hours, _, rest = time.partition(":")
    total = int(hours) * 60 + int(rest) + minutes
    return f"{total // 60 % 24:02}:{total % 60:02}"


tools = McpServer(command=[sys.executable, __file__])


@agent(description="Returns the end of a meeting: `10:30 45`.")
async def clock(ctx: RunContext) -> AsyncIterator[Emission]:
    """Call the tool. To offer it to a model, use ``openai_agent(tools=[tools])``."""
    begin, minutes = ctx.prompt.split()
    async with tools.open() as found:
        [adding] = found
        yield str(await ctx.call(adding, time=begin, minutes=int(minutes)))


if __name__ == "__main__":
    server.run("stdio")
