"""Adapter for models behind OpenAI-compatible chat endpoints."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Unpack
from urllib.parse import urlsplit

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError, Timeout

from headrace.adapters.conversation.memory import Memory, check_memory, conversation
from headrace.adapters.declaration import Declaration, declare_capabilities, declare_card
from headrace.adapters.openai.content import TAKES, without_image_urls
from headrace.adapters.openai.run import ChatRun, ModelEndpoint
from headrace.adapters.openai.stream import FORMAT
from headrace.sdk.agent import Agent, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Reject
from headrace.sdk.errors import ClientServerRefused, Misdeclared
from headrace.sdk.tools import RunToolSource, Tool, ToolSource, as_tools, by_name


class Toolbox:
    """The tools that an agent may call."""

    def __init__(self, given: Sequence[Tool | ToolSource | Callable[..., Any]]) -> None:
        """Hold tools, sources of tools, and functions to convert to tools.

        Raises:
            Misdeclared: Two tools have the same name, or an item is not a tool.
        """
        self._tools, self._sources = as_tools(given)

    @asynccontextmanager
    async def open(self, ctx: RunContext) -> AsyncIterator[dict[str, Tool]]:
        """Yield the tools of the run by name, usable within the block.

        Raises:
            ClientServerRefused: The run's client names a server that is not allowed.
            Misdeclared: Two tools have the same name.
            Retryable: A source of tools can't be reached.
        """
        async with AsyncExitStack() as stack:
            own, of_client = list(self._tools), list[Tool]()
            for source in self._sources:
                if isinstance(source, RunToolSource):
                    of_client += await stack.enter_async_context(source.open_for(ctx))
                else:
                    own += await stack.enter_async_context(source.open())
            found = by_name(own)
            for tool in of_client:
                if tool.name in found:
                    raise ClientServerRefused(
                        f"a server that the client names has {tool.name!r},"
                        " which is another tool's name"
                    )
                found[tool.name] = tool
            yield found


def openai_agent(  # noqa: PLR0913  # the adapter's options
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
    image_urls: bool | None = None,
    headers: Mapping[str, str] | None = None,
    memory: Memory = "context",
    max_turns: int = 16,
    connect_timeout: float = 10.0,
    request_timeout: float = 600.0,
    request_retries: int = 2,
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that calls a model behind an OpenAI-compatible endpoint.

    The worker executes `tools`. A call of a tool that an AG-UI client offers ends the run with that
    call pending, and its result starts the next run. If a request still fails after
    `request_retries`, or an answer breaks off, another attempt continues after the last tool
    result, as `retry` allows.

    Args:
        name: The agent's name in the fleet.
        model: The model's name.
        base_url: The endpoint; by default, OpenAI's own.
        api_key: The endpoint's key. For OpenAI's own endpoint it defaults to the key in the
            environment of the official client; another `base_url` gets only a key given here.
        instruction: The system message, or a function that makes it from the run's context.
        tools: Tools, sources of tools, and functions to convert to tools.
        show_thinking: Whether to emit reasoning.
        reasoning_effort: A field of each request, if given.
        temperature: A field of each request, if given.
        max_tokens: A field of each request, if given.
        options: Other fields of each request, sent unchanged.
        image_urls: Whether the endpoint gets the URLs of images that users link, and so fetches
            them from where it runs. By default, only OpenAI's own does.
        headers: Headers of each request. They go to the endpoint only: redirects are not followed.
        memory: How much of the conversation the model gets.
        max_turns: Maximum number of model responses in a run.
        connect_timeout: Seconds to connect.
        request_timeout: Seconds for which the endpoint may be silent.
        request_retries: Retries of one request, before any of its answer has arrived.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: The key is missing, two tools have the same name, or as for `agent`.
    """
    check_memory(memory, name)
    timeout = Timeout(request_timeout, connect=connect_timeout)
    client = _client(base_url, api_key, headers, timeout, request_retries)
    fields = {
        "reasoning_effort": reasoning_effort,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    request = {key: value for key, value in fields.items() if value is not None}
    endpoint = ModelEndpoint(
        client, model, {**request, **(options or {})}, show_thinking, max_turns
    )
    takes_image_urls = _is_openais(str(client.base_url)) if image_urls is None else image_urls
    toolbox = Toolbox(tools)
    declare_card(declared, Card(input_modes=TAKES))
    declared.setdefault("description", f"The model {model}.")
    declare_capabilities(declared, client_tools=True)

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        turns = await conversation(ctx, memory, FORMAT)
        if not takes_image_urls:
            for turn in turns:
                turn.parts = without_image_urls(turn.parts)
        system = instruction if isinstance(instruction, str) else instruction(ctx)
        try:
            async with toolbox.open(ctx) as found:
                await ChatRun(ctx, endpoint, found).converse(system, turns)
        except ClientServerRefused as refused:
            await ctx.emit(Reject(str(refused)))

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
            # The client follows redirects by default, and takes `headers` and the conversation with
            # it, to any origin.
            http_client=DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False),
        )
    except OpenAIError as error:
        raise Misdeclared(str(error)) from None
    if foreign:
        # Like the key, these belong to the OpenAI account that the environment names.
        client.organization = client.project = None
    return client


def _is_openais(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")
