"""The tools of one run: those declared, and those that their sources have just now."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from headrace.sdk.tools import Tool, ToolSource, as_tools, by_name


class Toolbox:
    """What an agent may call."""

    def __init__(self, given: Sequence[Tool | ToolSource | Callable[..., Any]]) -> None:
        """Hold tools, sources of tools, and functions that become tools.

        Raises:
            Misdeclared: two tools have one name, or one is no tool at all.
        """
        self._tools, self._sources = as_tools(given)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[dict[str, Tool]]:
        """Yield the tools by name, usable for the length of the block.

        Raises:
            Misdeclared: two have one name.
            Retryable: a source can't be reached.
        """
        async with AsyncExitStack() as stack:
            found = list(self._tools)
            for source in self._sources:
                found += await stack.enter_async_context(source.open())
            yield by_name(found)
