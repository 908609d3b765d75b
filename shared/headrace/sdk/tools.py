"""Tools: Python functions that agents and models call by name, with JSON for arguments.

The schema that a model is shown comes from the function's annotations and docstring; the arguments
that it sends are validated against them, and what is wrong with them is the tool's answer.
"""

import asyncio
import inspect
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast, overload, runtime_checkable

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from headrace.model.events import Json
from headrace.sdk.calling import Answer, ToolError
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Misdeclared, Retryable
from headrace.sdk.tool_schemas import Signature, signature_of

_THREADS = ThreadPoolExecutor(256, "tool")
"""For functions that are not async. Not asyncio's own pool, which has a few threads and looks up
addresses: tools that block would stop every new connection, and one another."""


class Tool(Protocol):
    """Something that can be called by name."""

    @property
    def name(self) -> str:
        """Its name, unique among an agent's tools."""

    @property
    def description(self) -> str:
        """What it does, for the model."""

    @property
    def parameters(self) -> Json:
        """JSON Schema of its arguments, an object."""

    async def answer(self, ctx: RunContext, arguments: Any) -> Answer:  # noqa: ANN401  # any JSON
        """Do it for the run of `ctx`; what goes wrong is told in the answer."""


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from that are known only once it is asked, an MCP server say."""

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return its tools, usable for the length of a block."""


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool; called as a function it is that function."""

    name: str
    description: str
    function: Callable[..., Any]
    signature: Signature
    timeout: float | None = None
    """Seconds that a call may take; None: any."""

    @property
    def parameters(self) -> Json:
        """JSON Schema of its arguments."""
        return self.signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the function's own
        """Call the function itself."""
        return self.function(*args, **kwargs)

    async def answer(self, ctx: RunContext, arguments: Any) -> Answer:  # noqa: ANN401  # any JSON
        """Validate the arguments, an object or its JSON text, and call the function.

        A function that is not async is called in a thread. `ToolError` says what the model and the
        user are told; of any other exception they are told an id that stands in the worker's log.

        Raises:
            Retryable: the function did, so the run is to be tried again.
        """
        try:
            given = self.signature.read(arguments)
            async with asyncio.timeout(self.timeout):
                returned = await self._call(ctx, given)
            return Answer(returned if isinstance(returned, str) else _json(returned))
        except ToolError as error:
            return Answer(error=str(error))
        except ValidationError as error:
            return Answer(error=_complaints(error))
        except TimeoutError:
            return Answer(error=f"{self.name} did not answer in time")
        except Retryable:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the model is told an id of it
            return Answer(error=failed(ctx, self.name, error))

    async def _call(self, ctx: RunContext, given: BaseModel) -> Any:  # noqa: ANN401  # the function's own
        arguments = self.signature.arguments(given, ctx)
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        call = partial(copy_context().run, self.function, **arguments)
        return await asyncio.get_running_loop().run_in_executor(_THREADS, call)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *, name: str = "", description: str = "", timeout: float | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function; its parameters need annotations that pydantic knows.

    Without a `name` it is called as the function is, without a `description` it is described by
    the docstring above its ``Args:``. A parameter annotated with `RunContext` is given the run's
    and is not shown. `timeout` is in seconds.

    Raises:
        Misdeclared: a parameter has no annotation, or one that has no JSON Schema.
    """

    def declare(declared: Callable[..., Any]) -> FunctionTool:
        signature = signature_of(declared)
        called = name or getattr(declared, "__name__", "")
        return FunctionTool(
            called, description or signature.description, declared, signature, timeout
        )

    return declare if function is None else declare(function)


def as_tools(
    given: Sequence[Tool | ToolSource | Callable[..., Any]],
) -> tuple[list[Tool], list[ToolSource]]:
    """Return what is given as tools, and the sources of further ones.

    Raises:
        Misdeclared: two tools have one name, or one is no tool at all.
    """
    tools, sources = list[Tool](), list[ToolSource]()
    for each in given:
        if isinstance(each, ToolSource):
            sources.append(each)
        elif hasattr(each, "answer"):
            tools.append(cast("Tool", each))
        elif callable(each):
            tools.append(tool(each))
        else:
            raise Misdeclared(f"{type(each).__name__} is no tool")
    by_name(tools)
    return tools, sources


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return `tools` by name.

    Raises:
        Misdeclared: two have one name.
    """
    found: dict[str, Tool] = {}
    for each in tools:
        if found.setdefault(each.name, each) is not each:
            raise Misdeclared(f"two tools are called {each.name!r}")
    return found


def failed(ctx: RunContext, name: str, error: Exception) -> str:
    """Log the exception of a tool and return what may be told of it."""
    error_id = secrets.token_hex(4)
    ctx.log.error("error %s: the tool %s failed", error_id, name, exc_info=error)
    return f"{name} failed (error {error_id})"


def as_text(content: Any) -> str:  # noqa: ANN401  # any JSON
    """Return an answer's content as models take it: text as it is, anything else as JSON."""
    return content if isinstance(content, str) else orjson.dumps(content).decode()


def _json(returned: Any) -> Any:  # noqa: ANN401  # any JSON
    try:
        return to_jsonable_python(returned)
    except PydanticSerializationError as error:
        raise TypeError(f"a tool must return what can be JSON: {error}") from error


def _complaints(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found]
    return "; ".join(said)
