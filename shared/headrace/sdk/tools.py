"""Tools: Python functions that agents and models call by name with JSON arguments.

The schema for the model comes from the function's annotations and docstring. Arguments are
validated against it; validation errors are returned as the tool's output.
"""

import asyncio
import inspect
import re
import secrets
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from headrace.model.events import Json
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Misdeclared, is_of_fleet
from headrace.sdk.once import call_once
from headrace.sdk.source import called_at, declared_at
from headrace.sdk.step_call import IDEMPOTENCY_KEY
from headrace.sdk.step_values import digest_of
from headrace.sdk.thread_pool import call_in_thread
from headrace.sdk.tool_call import ToolError, ToolOutput

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):")
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.+)$")


@runtime_checkable
class Tool(Protocol):
    """A tool that agents and models can call by name."""

    @property
    def name(self) -> str:
        """Name of the tool, unique among the agent's tools."""

    @property
    def description(self) -> str:
        """Description for the model."""

    @property
    def parameters(self) -> Json:
        """JSON Schema of the arguments: ``{"type": "object", "properties": {…}}``."""

    async def call(self, ctx: RunContext, arguments: Any) -> ToolOutput:  # noqa: ANN401  # any JSON
        """Run the tool for `ctx`. Failures are reported in the output."""


@runtime_checkable
class AskingTool(Tool, Protocol):
    """A tool whose calls may return a question to the user."""

    async def answer(
        self,
        ctx: RunContext,
        arguments: Any,  # noqa: ANN401  # any JSON
        state: Json,
        answer: Any,  # noqa: ANN401  # any JSON
    ) -> ToolOutput:
        """Go on with the call that returned a question with `state`; None cancels the question."""


@runtime_checkable
class ToolSource(Protocol):
    """A source of tools that are only known at run time, such as an MCP server."""

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a context manager that yields the tools. They are usable inside its block."""


@runtime_checkable
class RunToolSource(ToolSource, Protocol):
    """A source of tools that depend on the run, such as those of servers that its client names."""

    def open_for(self, ctx: RunContext) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a context manager that yields the tools of the run. See `open`."""


@dataclass(frozen=True)
class Signature:
    """A function's parameters, except the one for the run's context."""

    description: str
    """The part of the docstring before its first section."""
    model: type[BaseModel]
    schema: Json
    context: str | None
    """Name of the parameter that receives the `RunContext`. None: no such parameter."""

    def read(self, arguments: Any) -> BaseModel:  # noqa: ANN401  # any JSON
        """Validate the arguments: an object or its JSON text. Empty text is an empty object.

        Raises:
            ValidationError: The arguments do not match the function's parameters.
        """
        if isinstance(arguments, str | bytes):
            return self.model.model_validate_json(arguments or "{}")
        return self.model.model_validate(arguments)

    def arguments(self, given: BaseModel, ctx: RunContext) -> Json:
        """Return the function's keyword arguments."""
        named = {name: getattr(given, name) for name in type(given).model_fields}
        return {**named, self.context: ctx} if self.context else named


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool. It can still be called as a function."""

    name: str
    description: str
    function: Callable[..., Any]
    signature: Signature
    timeout: float | None = None
    """Maximum duration of a call in seconds. None: unlimited."""
    once: bool = False
    """Whether each call is a step (`RunContext.step`), known by its arguments."""

    @property
    def parameters(self) -> Json:
        """JSON Schema of the arguments."""
        return self.signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the function's own
        """Call the function itself."""
        return self.function(*args, **kwargs)

    async def call(self, ctx: RunContext, arguments: Any) -> ToolOutput:  # noqa: ANN401  # any JSON
        """Validate the arguments, an object or its JSON text, and call the function.

        A function that is not async is called in a thread. The message of a `ToolError` is returned
        to the model and the user. For any other exception, they get an error id; the traceback is
        in the worker's log under that id.

        Raises:
            Retryable: The function raised it; the run is tried again.
            BusUnavailable, StateUnavailable: The context could not be read; likewise.
            RunOver, LogLost: The run is over.
        """
        try:
            given = self.signature.read(arguments)
            returned = await (self._once if self.once else self._called)(ctx, given)
            return ToolOutput(returned if isinstance(returned, str) else _json(returned))
        except ToolError as error:
            return ToolOutput(error=str(error))
        except ValidationError as error:
            return ToolOutput(error=_complaints(error))
        except TimeoutError:
            return ToolOutput(error=f"{self.name} timed out")
        except Exception as error:  # reported to the model as an error id
            if is_of_fleet(error):
                # A model would be told of a failure that is none of the tool's.
                raise
            return ToolOutput(error=failed(ctx, self.name, error))

    async def _once(self, ctx: RunContext, given: BaseModel) -> Any:  # noqa: ANN401  # the function's own
        alike = digest_of((), given.model_dump())
        arguments = self.signature.arguments(given, ctx)
        return await call_once(ctx, self.name, self.function, (), arguments, alike, self.timeout)

    async def _called(self, ctx: RunContext, given: BaseModel) -> Any:  # noqa: ANN401  # the function's own
        arguments = self.signature.arguments(given, ctx)
        async with asyncio.timeout(self.timeout):
            if inspect.iscoroutinefunction(self.function):
                return await self.function(**arguments)
            return await call_in_thread(self.function, **arguments)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *, name: str = "", description: str = "", timeout: float | None = None, once: bool = False
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
    once: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Declare a function as a tool. Pydantic must support the annotations of its parameters.

    A parameter annotated with `RunContext` receives the run's context and is not part of the
    schema.

    Args:
        function: The function, async or not.
        name: Default: the function's name.
        description: Default: the part of the docstring before ``Args:``.
        timeout: Maximum duration of a call in seconds. None: unlimited.
        once: Whether each call is a step: its result is recorded, and another attempt that makes
            the call gets the record. A parameter `idempotency_key` gets the step's key, and is
            not part of the schema.

    Raises:
        Misdeclared: A parameter has no annotation, or its annotation has no JSON Schema.
    """

    def declare(declared: Callable[..., Any]) -> FunctionTool:
        if isinstance(declared, Agent):
            why = f"agent {declared.name!r} can't be a tool; delegate to it, in a function"
            raise Misdeclared(f"{why}{called_at()}")
        signature = signature_of(declared, hidden=IDEMPOTENCY_KEY if once else "")
        called = name or getattr(declared, "__name__", "")
        return FunctionTool(
            called, description or signature.description, declared, signature, timeout, once
        )

    if function is None:
        return declare
    if not callable(function):
        raise Misdeclared(f"tool({function!r}): write @tool(name={function!r}){called_at()}")
    return declare(function)


def as_tools(
    given: Sequence[Tool | ToolSource | Callable[..., Any]],
) -> tuple[list[Tool], list[ToolSource]]:
    """Return `given` as a list of tools and a list of tool sources.

    Raises:
        Misdeclared: Two tools have the same name, or an item is not a tool.
    """
    tools, sources = list[Tool](), list[ToolSource]()
    each: object
    for each in given:
        if isinstance(each, ToolSource):
            sources.append(each)
        elif isinstance(each, Tool):
            tools.append(each)
        elif isinstance(each, Agent):
            raise Misdeclared("Agent is not a tool; delegate to it, in a function")
        elif callable(each):
            tools.append(tool(each))
        else:
            raise Misdeclared(f"{type(each).__name__} is not a tool; use a function or Tool")
    by_name(tools)
    return tools, sources


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return the tools by name.

    Raises:
        Misdeclared: Two tools have the same name.
    """
    found: dict[str, Tool] = {}
    for each in tools:
        if found.setdefault(each.name, each) is not each:
            raise Misdeclared(f"two tools are named {each.name!r}; names must be unique")
    return found


def failed(ctx: RunContext, name: str, error: Exception) -> str:
    """Log a tool's exception and return an error message with an id instead of details."""
    error_id = secrets.token_hex(4)
    ctx.log.error("error %s: tool %s failed", error_id, name, exc_info=error)
    return f"{name} failed (error {error_id})"


def _json(returned: Any) -> Any:  # noqa: ANN401  # any JSON
    try:
        return to_jsonable_python(returned)
    except PydanticSerializationError as error:
        raise TypeError(f"a tool must return JSON-serializable data: {error}") from error


def _complaints(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    problems = [
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found
    ]
    return "; ".join(problems)


def signature_of(function: Callable[..., Any], hidden: str = "") -> Signature:
    """Read a function's signature, without the parameter `hidden`, and its docstring.

    Raises:
        Misdeclared: A parameter has no annotation, can't be passed by keyword, or has no JSON
            Schema.
    """
    name = _name_of(function)
    documented = inspect.getdoc(function) or ""
    descriptions = dict(_described(documented))
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = [
            _checked(p, hints, function)
            for p in inspect.signature(function).parameters.values()
            if p.name != hidden
        ]
        contexts = [p.name for p in parameters if hints[p.name] is RunContext]
        fields: dict[str, Any] = {
            p.name: (hints[p.name], _field(p, descriptions))
            for p in parameters
            if p.name not in contexts
        }
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        schema = _without_titles(model.model_json_schema())
    except (NameError, TypeError, ValueError, PydanticUserError) as error:
        why = f"no JSON schema can be made for tool {name!r}: {_reason(error)}"
        raise Misdeclared(f"{why}{declared_at(function)}") from error
    return Signature(_summary(documented), model, schema, contexts[0] if contexts else None)


def _reason(error: Exception) -> str:
    """Return what is wrong, in one line; pydantic adds settings that authors can't reach."""
    line = str(error).partition("\n")[0]
    if not isinstance(error, PydanticUserError):
        return line
    return f"{line.partition('. ')[0]}; use types that have one, such as str, list or a BaseModel"


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _checked(
    parameter: inspect.Parameter, hints: Json, function: Callable[..., Any]
) -> inspect.Parameter:
    what = f"{_name_of(function)}: parameter {parameter.name}"
    by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    if parameter.kind not in by_name:
        raise Misdeclared(f"{what} must accept a keyword argument{declared_at(function)}")
    if parameter.name not in hints:
        raise Misdeclared(f"{what} needs a type annotation{declared_at(function)}")
    return parameter


def _field(parameter: inspect.Parameter, descriptions: dict[str, str]) -> Any:  # noqa: ANN401  # pydantic's
    empty = parameter.default is inspect.Parameter.empty
    default = ... if empty else parameter.default
    about = descriptions.get(parameter.name)
    return default if about is None else Field(default, description=about)


def _summary(documented: str) -> str:
    lines: list[str] = []
    for line in documented.splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def _described(documented: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in documented.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] in {"Args", "Arguments", "Parameters"}
        elif inside and (found := _ARGUMENT.match(line)):
            yield found[1], found[2].strip()


def _without_titles(schema: Any) -> Any:  # noqa: ANN401  # any JSON Schema
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(inner) for name, inner in value.items()}
            if key in {"properties", "$defs"}
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema
