"""A model behind an OpenAI-compatible chat endpoint as an agent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from headrace_worker.adapters.declaring import Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.openai_run import ChatRun, Endpoint
from headrace_worker.agent import Agent, agent
from headrace_worker.context import RunContext
from headrace_worker.conversation import answered
from headrace_worker.errors import Misdeclared
from headrace_worker.remembering import Memory, conversation
from headrace_worker.toolbox import Toolbox
from headrace_worker.tools import Tool, ToolSource

with needs("openai"):
    from openai import AsyncOpenAI, OpenAIError

_TAKES = ("text/plain", "application/json", "image/png", "image/jpeg", "image/webp", "image/gif")


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
    request_timeout: float = 600.0,
    retries: int = 0,
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of `model` at `base_url` (without one, OpenAI's own).

    `api_key` is, where None, what the official client finds in its environment; an endpoint with a
    `base_url` needs none. `instruction` is the system message. `tools` are called here, those that
    an AG-UI client brings are called by it: the run then ends with their calls pending, and the
    results begin the next one. At most `max_turns` answers of the model make one run. `options` go
    into each request as they are. `request_timeout` (s) is how long the endpoint may be silent.
    `retries` are those of the client itself, before anything of an answer has come; after them, and
    where an answer breaks off, the run is tried again as `max_attempts` and `backoff` say. The
    other keywords are `agent`'s.

    Raises:
        Misdeclared: there is no key, two tools have one name, or as `agent`.
    """
    client = _client(base_url, api_key, headers, request_timeout, retries)
    told = {
        "reasoning_effort": reasoning_effort,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    request = {key: value for key, value in told.items() if value is not None}
    endpoint = Endpoint(client, model, {**request, **(options or {})}, show_thinking, max_turns)
    toolbox = Toolbox(tools)
    declared.setdefault("input_modes", _TAKES)
    declared.setdefault("description", f"The model {model}.")

    @agent(name=name, **declared)
    async def run(ctx: RunContext) -> None:
        turns = answered(await conversation(ctx, memory))
        said = instruction if isinstance(instruction, str) else instruction(ctx)
        async with toolbox.open() as found:
            await ChatRun(ctx, endpoint, found).answer(said, turns)

    return run


def _client(
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    timeout: float,
    retries: int,
) -> AsyncOpenAI:
    def client(key: str | None) -> AsyncOpenAI:
        return AsyncOpenAI(
            base_url=base_url,
            api_key=key,
            default_headers=headers,
            timeout=timeout,
            max_retries=retries,
        )

    try:
        return client(api_key)
    except OpenAIError as error:
        if base_url is None:
            raise Misdeclared(str(error)) from None
        return client("none")
