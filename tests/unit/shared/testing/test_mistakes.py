"""Each mistake in an agent is made here, and has a message that names the line and the remedy."""

import io
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.sdk.errors import Misdeclared
from headrace.testing import TestFleet
from headrace_worker.load import load

_IMPORTS = """\
import asyncio; from headrace import *

"""


class Mistake(NamedTuple):
    """A module with a mistake in it, and the message that says so."""

    what: str
    code: str
    message: str
    runs: bool = False
    """Whether it shows when the agent runs, not when it is declared."""


MISTAKES = [
    Mistake(
        "a name without `name=`",
        "@agent('shop')\nasync def shop(ctx):\n    yield 'hello'\n",
        "agent('shop'): write @agent(name='shop') (shop.py:3)",
    ),
    Mistake(
        "a function without the context",
        "@agent\nasync def shop():\n    yield 'hello'\n",
        "the function of agent 'shop' must take one argument, the RunContext: async def shop(ctx)"
        " (shop.py:3)",
    ),
    Mistake(
        "a name with spaces",
        "@agent(name='my shop')\nasync def shop(ctx):\n    yield 'hello'\n",
        "agent 'my shop' must be 1 to 64 of [A-Za-z0-9_-], beginning with a letter or digit"
        " (shop.py:3)",
    ),
    Mistake(
        "an option of another type",
        "@agent(limits=Limits(timeout='5'))\nasync def shop(ctx):\n    yield 'hello'\n",
        "the limits.timeout of agent 'shop' must be a number of seconds, not str (shop.py:3)",
    ),
    Mistake(
        "one value where several are expected",
        "@agent(card=Card(input_modes='text/plain'))\nasync def shop(ctx):\n    yield 'hello'\n",
        "agent 'shop': card.input_modes: Input should be a valid list (shop.py:3)",
    ),
    Mistake(
        "an option of a group",
        "@agent(icon_url='https://a.example')\nasync def shop(ctx):\n    yield 'hello'\n",
        "unknown option 'icon_url' of agent 'shop'; write card=Card(icon_url=…) (shop.py:3)",
    ),
    Mistake(
        "an option that does not exist",
        "@agent(descripton='Sells nails.')\nasync def shop(ctx):\n    yield 'hello'\n",
        "unknown option 'descripton' of agent 'shop'; did you mean description? (shop.py:3)",
    ),
    Mistake(
        "an option of `@agent` in a group",
        "@agent(card=Card(description='Sells nails.'))\nasync def shop(ctx):\n    yield 'hello'\n",
        "unknown option 'description' of Card; write @agent(description=…) (shop.py:3)",
    ),
    Mistake(
        "an option that a group does not have",
        "@agent(retry=Retry(max=5))\nasync def shop(ctx):\n    yield 'hello'\n",
        "unknown option 'max' of Retry; Retry has attempts, backoff, on (shop.py:3)",
    ),
    Mistake(
        "a group's option without its name",
        "@agent(limits=Limits(5))\nasync def shop(ctx):\n    yield 'hello'\n",
        "Limits(5): options of Limits have names: concurrency, timeout, start_within (shop.py:3)",
    ),
    Mistake(
        "an interceptor that is no context manager",
        "async def timed(ctx):\n    yield\n\n"
        "@agent(interceptors=[timed])\nasync def shop(ctx):\n    yield 'hello'\n",
        "an interceptor of agent 'shop' must return an async context manager, not async_generator:"
        " write @contextlib.asynccontextmanager above it (shop.py:3)",
        runs=True,
    ),
    Mistake(
        "two agents with one name",
        "@agent\nasync def shop(ctx):\n    yield 'hello'\n\n"
        "@agent(name='shop')\nasync def other(ctx):\n    yield 'hello'\n\n"
        "agents = Agents([shop, other])\n",
        "two agents are named 'shop'; names must be unique (shop.py:7)",
    ),
    Mistake(
        "a function that is not declared",
        "async def shop(ctx):\n    yield 'hello'\n",
        "shop:shop is not an agent or a list of agents; declare the function with @agent"
        " (shop.py:3)",
    ),
    Mistake(
        "a package that is not installed",
        "import not_there\n",
        "shop imports not_there, which is not installed (shop.py:3)",
    ),
    Mistake(
        "a module that is not Python",
        "@agent\nasync def shop(ctx)\n    yield 'hello'\n",
        "shop.py:4: expected ':'",
    ),
    Mistake(
        "a module with null bytes, such as one saved as UTF-16",
        "@agent\nasync def shop(ctx):\n    yield '\0'\n",
        "shop.py:5: a null byte; save the file as UTF-8 text",
    ),
    Mistake(
        "a tool's parameter without a type",
        "@tool\nasync def stock(of):\n    return 7\n",
        "stock: parameter of needs a type annotation (shop.py:3)",
    ),
    Mistake(
        "a tool's name without `name=`",
        "@tool('stock')\nasync def stock(of: str):\n    return 7\n",
        "tool('stock'): write @tool(name='stock') (shop.py:3)",
    ),
    Mistake(
        "a tool's parameter of a type without a JSON schema",
        "class Shelf:\n    pass\n\n@tool\nasync def stock(of: Shelf):\n    return 7\n",
        "no JSON schema can be made for tool 'stock': Unable to generate pydantic-core schema for"
        " <class 'shop.Shelf'>; use types that have one, such as str, list or a BaseModel"
        " (shop.py:6)",
    ),
    Mistake(
        "`@agent` twice",
        "@agent\n@agent\nasync def shop(ctx):\n    yield 'hello'\n",
        "agent 'shop' is already declared with @agent (shop.py:3)",
    ),
    Mistake(
        "`@tool` above `@agent`",
        "@tool\n@agent\nasync def shop(ctx):\n    yield 'hello'\n",
        "agent 'shop' can't be a tool; delegate to it, in a function (shop.py:3)",
    ),
    Mistake(
        "`@agent` above `@tool`",
        "@agent\n@tool\nasync def stock(of: str):\n    return 7\n",
        "a tool can't be an agent; write @tool or @agent, or a function for each (shop.py:3)",
    ),
    Mistake(
        "a trigger below `@agent`",
        "@agent\n@on('orders.created')\nasync def shop(ctx):\n    yield 'hello'\n",
        "@on must stand above @agent (shop.py:4)",
    ),
    Mistake(
        "a trigger without a subject",
        "@on\n@agent\nasync def shop(ctx):\n    yield 'hello'\n",
        "write @on('…') (shop.py:3)",
    ),
    Mistake(
        "a value that a trigger can't have",
        "@on('orders.created', filter={'total': 7})\n@agent\nasync def shop(ctx):\n"
        "    yield 'hello'\n",
        "the trigger of agent 'shop': filter: 'total' must be subject, headers.NAME or body,"
        " followed by names and numbers with dots between (shop.py:3)",
    ),
    Mistake(
        "a schedule without a time",
        "@schedule('count the stock')\n@agent\nasync def shop(ctx):\n    yield 'hello'\n",
        "the schedule of agent 'shop': schedule: exactly one of at, every and cron is required"
        " (shop.py:3)",
    ),
    Mistake(
        "two schedules with one name",
        "@schedule('check the orders', every='15m')\n@schedule('count the stock', every='1h')\n"
        "@agent\nasync def shop(ctx):\n    yield 'hello'\n",
        "two schedules of agent 'shop' are named 'shop'; give one another name:"
        " @schedule(…, name=…) (shop.py:3)",
    ),
    Mistake(
        "output of another type",
        "@agent\nasync def shop(ctx):\n    yield 'There are '\n    yield 7\n",
        "agent 'shop': an agent can't yield int; allowed: str, Thinking, ToolCall,"
        " ToolResult, File, Data, InputRequired, … (shop.py:6)",
        runs=True,
    ),
    Mistake(
        "output of another type, returned",
        "@agent\nasync def shop(ctx):\n    return 7\n",
        "agent 'shop': an agent can't yield int; allowed: str, Thinking, ToolCall,"
        " ToolResult, File, Data, InputRequired, … (shop.py:3)",
        runs=True,
    ),
    Mistake(
        "structured output as it is",
        "@agent\nasync def shop(ctx):\n    yield {'nails': 7}\n",
        "agent 'shop': an agent can't yield dict; yield Data(…) for structured output (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "`None` as output",
        "@agent\nasync def shop(ctx):\n    yield None\n",
        "agent 'shop': an agent can't yield None; to end the run without output, return"
        " (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "a generator instead of what it yields",
        "@agent\nasync def shop(ctx):\n    yield words()\n\n"
        "async def words():\n    yield 'hello'\n",
        "agent 'shop': an agent can't yield async_generator; yield its items: async for item in …:"
        " yield item (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "a forgotten `await`",
        "import asyncio\n\n@agent\nasync def shop(ctx):\n"
        "    yield asyncio.ensure_future(stock())\n\n"
        "async def stock():\n    return '7'\n",
        "agent 'shop': an agent can't yield Task; an await is missing (shop.py:7)",
        runs=True,
    ),
    Mistake(
        "a method of the context without `await`",
        "@agent\nasync def shop(ctx):\n    ctx.emit('There are 7.')\n    yield 'Nails? '\n",
        "agent 'shop' called ctx.emit() without await, so it did nothing; await ctx.emit(…)"
        " (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "another agent's answer without `await`",
        "@agent\nasync def shop(ctx):\n    answer = ctx.delegate('store', 'nails')\n"
        "    return f'{answer}'\n",
        "agent 'shop' called ctx.delegate() without await, so it did nothing; await"
        " ctx.delegate(…) (shop.py:3)",
        runs=True,
    ),
    Mistake(
        "a method of the context in a function without `async`",
        "@agent\ndef shop(ctx):\n    ctx.emit('There are 7.')\n    yield 'Nails? '\n",
        "agent 'shop' called ctx.emit(), which needs await: declare it with async def (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "the result of a method of the context, used without `await`",
        "@agent\nasync def shop(ctx):\n    yield 'Nails? '\n"
        "    for message in ctx.history():\n        yield message['messageId']\n",
        "agent 'shop' called ctx.history() without await, so it did nothing; await ctx.history(…)"
        " (shop.py:6)",
        runs=True,
    ),
    Mistake(
        "memory without `await`",
        "@agent\nasync def shop(ctx):\n    ctx.memory.save('stock', 7)\n    yield 'hello'\n",
        "agent 'shop' called ctx.memory.save() without await, so it did nothing;"
        " await ctx.memory.save(…) (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "what the memory has, used without `await`",
        "@agent\nasync def shop(ctx):\n    yield ctx.memory.of_owner.load('stock')['nails']\n",
        "agent 'shop' called ctx.memory.load() without await, so it did nothing;"
        " await ctx.memory.load(…) (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "`asyncio.run` in a function without `async`",
        "import asyncio\n\n@agent\ndef shop(ctx):\n    asyncio.run(ctx.emit('There are 7.'))\n",
        "agent 'shop' used ctx.emit outside of the worker's event loop; declare the function with"
        " async def, and await it there (shop.py:7)",
        runs=True,
    ),
    Mistake(
        "output after the end",
        "@agent\nasync def shop(ctx):\n    yield InputRequired('How many?')\n    yield 'Thanks.'\n",
        "agent 'shop': str after the run's end (shop.py:6)",
        runs=True,
    ),
    Mistake(
        "a file without content",
        "@agent\nasync def shop(ctx):\n    yield File('list.txt')\n",
        "agent 'shop': a file needs either content or a URL (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "output that is too large for a message",
        "@agent\nasync def shop(ctx):\n    yield Data('x' * 20_000_000)\n",
        "agent 'shop': an event of … bytes exceeds the limit of 1032192; yield large content as a"
        " File (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "`input()`",
        "@agent\nasync def shop(ctx):\n    number = input('How many? ')\n"
        "    yield f'{number} nails'\n",
        "agent 'shop' called input(), but a worker has no terminal; "
        "yield InputRequired('…') (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "an exit of the process",
        "@agent\nasync def shop(ctx):\n    yield 'hello'\n    raise SystemExit(1)\n",
        "agent 'shop' raised SystemExit; only its run ends: return, or raise an Exception"
        " (shop.py:6)",
        runs=True,
    ),
    Mistake(
        "`KeyboardInterrupt`",
        "@agent\nasync def shop(ctx):\n    yield 'hello'\n    raise KeyboardInterrupt\n",
        "agent 'shop' raised KeyboardInterrupt; only its run ends: return, or raise an Exception"
        " (shop.py:6)",
        runs=True,
    ),
    Mistake(
        "a function that is no tool",
        "def stock(of: str) -> int:\n    return 7\n\n"
        "@agent\nasync def shop(ctx):\n    await ctx.call(stock, of='nails')\n",
        "ctx.call() needs a tool, not function: declare its function with @tool (shop.py:8)",
        runs=True,
    ),
    Mistake(
        "a reply without the child that it is for",
        "@agent\nasync def shop(ctx):\n    await ctx.reply('four')\n",
        "ctx.reply() needs the child's Result first, not str: write ctx.reply(result, message), or"
        " ctx.reply(message=…) (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "JSON where the memory takes bytes",
        "@agent\nasync def shop(ctx):\n    await ctx.memory.put('stock', {'nails': 7})\n",
        "agent 'shop': the value of memory key 'stock' must be bytes, not dict; use save for JSON"
        " (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "a step's function that is called already",
        "def count():\n    return '7'\n\n"
        "@agent\nasync def shop(ctx):\n    await ctx.step('count', count())\n",
        "step 'count' needs a function and its arguments, not str: write ctx.step('count',"
        " function, …) (shop.py:8)",
        runs=True,
    ),
    Mistake(
        "a step's `retry` that is a number",
        "@agent\nasync def shop(ctx):\n    await ctx.step('count', lambda: 7, retry=3)\n",
        "the retry of step 'count' must be a Retry: write Retry(…) (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "a step whose result is no JSON",
        "@agent\nasync def shop(ctx):\n    await ctx.step('count', lambda: object())\n",
        "agent 'shop': the result of step 'count' is not JSON; return JSON, a dataclass or a"
        " Pydantic model, and store large or binary content as a file (shop.py:5)",
        runs=True,
    ),
    Mistake(
        "one step twice at the same time",
        "async def count(ctx):\n    await ctx.step('count', asyncio.sleep, 0)\n\n"
        "@agent\nasync def shop(ctx):\n    await asyncio.gather(count(ctx), count(ctx))\n",
        "step 'count' is called twice at the same time, and another attempt could not tell which"
        " call is which; give each call a key= (shop.py:4)",
        runs=True,
    ),
    Mistake(
        "another step than the one that is recorded",
        "@agent(retry=Retry(backoff=0))\nasync def shop(ctx):\n"
        "    name = 'charge' if ctx.attempt == 1 else 'pay'\n"
        "    await ctx.step(name, lambda: 7)\n"
        "    raise Retryable\n",
        "step 'pay' has no record, but step 'charge' (number 1), which an earlier attempt did"
        " instead, was not asked for; pin tasks to the version of the agent that began them, give"
        " the step a key=, and decide by recorded values alone: results of steps, ctx.now,"
        " ctx.random and ctx.uuid (shop.py:6)",
        runs=True,
    ),
]


async def _made(mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the mistake as a module ``shop``, and return the message."""
    (folder / "shop.py").write_text(_IMPORTS + mistake.code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "shop", sys)  # so that the module is gone after the test
    monkeypatch.delitem(sys.modules, "shop")
    if not mistake.runs:
        with pytest.raises(Misdeclared) as refused:
            load("shop:shop")
        return str(refused.value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    async with TestFleet(load("shop:shop")) as fleet:
        text = (await fleet.send("shop", "nails")).status_text
    found = re.fullmatch(r"(?:The agent's output is malformed: )?(.*) \(error \w+\)", text)
    # The size depends on the ids in the event.
    return re.sub(r"of \d+ bytes", "of … bytes", found[1] if found else text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
async def test_a_mistake_has_its_message(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _made(mistake, tmp_path, monkeypatch) == mistake.message


def test_every_message_names_file_and_line() -> None:
    assert [one.what for one in MISTAKES if not re.search(r"shop\.py:\d+", one.message)] == []


def test_every_message_is_one_line() -> None:
    assert [one.what for one in MISTAKES if "\n" in one.message] == []
