"""A model behind an OpenAI-compatible chat endpoint as an agent."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Unpack
from urllib.parse import urlsplit

from headrace.sdk.agent import Agent, agent
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Misdeclared
from headrace.sdk.tools import Tool, ToolSource, as_tools, by_name
from headrace_worker.adapters.declaring import Declaration, declare_capabilities
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.openai_content import TAKES
from headrace_worker.adapters.openai_run import ChatRun, ModelEndpoint
from headrace_worker.adapters.openai_stream import FORMAT
from headrace_worker.remembering import Memory, conversation


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


with needs("openai"):
    from openai import AsyncOpenAI, OpenAIError, Timeout


def openai_agent(  # noqa: PLR0913  # what such an endpoint can be told
    *,
    name: str,
    model: str,
    base_url: str | None = None,
    api_key: str | None = None,
    instruction: str | Callable[[RunContext], str] = "",
    tools: Sequence[Tool | ToolSource | Callable[..., Any]] = (),
    show_thinking: bool = True,
    reasoning_effort: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    options: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    memory: Memory = "context",
    max_turns: int = 16,
    connect_timeout: float = 10.0,
    request_timeout: float = 600.0,
    retries: int = 2,
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of `model` at `base_url` (without one, OpenAI's own).

    `api_key` is, where None, what the official client finds in its environment. It finds it for
    OpenAI alone: an endpoint with another `base_url` is sent the key given here, or none.
    `instruction` is the system message. `tools` are called here, those that
    an AG-UI client brings are called by it: the run then ends with their calls pending, and the
    results begin the next one. At most `max_turns` answers of the model make one run. `options` go
    into each request as they are. A connection is made in `connect_timeout` s; `request_timeout`
    (s) is how long the endpoint may be silent. `retries` are those of one request, before anything
    of an answer has come; after them, and where an answer breaks off, the run goes on behind its
    last tool result in another attempt, as `max_attempts` and `backoff` say. The other keywords are
    `agent`'s.

    Raises:
        Misdeclared: there is no key, two tools have one name, or as `agent`.
    """
    timeout = Timeout(request_timeout, connect=connect_timeout)
    client = _client(base_url, api_key, headers, timeout, retries)
    told = {
        "reasoning_effort": reasoning_effort,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    request = {key: value for key, value in told.items() if value is not None}
    endpoint = ModelEndpoint(
        client, model, {**request, **(options or {})}, show_thinking, max_turns
    )
    toolbox = Toolbox(tools)
    declared.setdefault("input_modes", TAKES)
    declared.setdefault("description", f"The model {model}.")
    declare_capabilities(declared, client_tools=True)

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        turns = await conversation(ctx, memory, FORMAT)
        said = instruction if isinstance(instruction, str) else instruction(ctx)
        async with toolbox.open() as found:
            await ChatRun(ctx, endpoint, found).answer(said, turns)

    return run


def _client(
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    timeout: Timeout,
    retries: int,
) -> AsyncOpenAI:
    foreign = base_url is not None and not _is_openais(base_url)
    try:
        client = AsyncOpenAI(
            base_url=base_url,
            api_key="none" if foreign and api_key is None else api_key,
            default_headers=headers,
            timeout=timeout,
            max_retries=retries,
        )
    except OpenAIError as error:
        raise Misdeclared(str(error)) from None
    if foreign:
        # As the key, these are of the account with OpenAI that the environment names.
        client.organization = client.project = None
    return client


def _is_openais(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")
