"""Which files of the project one request enters: traced in the processes of a development stack."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx

from tests.architecture.tree import ROOT, SOURCE_ROOTS
from tests.support.plain_a2a import PlainAgent
from tests.support.stack import Stack
from tests.support.waiting import until

_TRACING = Path(__file__).parent / "tracing"
_TIMES = 3
"""Only functions that a request enters each time count: others run beside it now and then."""

_BESIDE = 3.0
"""Seconds in which all that goes on without a request has run; it does not count either."""

_SETTLE = 0.5
"""Seconds that task state has to apply what the client has seen."""

type Entered = dict[str, set[str]]
"""Files, or functions in them, by role: gateway, worker, task-state."""


def trace() -> dict[str, Entered]:
    """Return what a streamed echo and a cancel enter, in a stack with one process per service."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        switch = folder / "trace"
        switch.mkdir()
        paths = [str(_TRACING), *(str(ROOT / one) for one in SOURCE_ROOTS)]
        environment = {"PYTHONPATH": ":".join(paths), "HEADRACE_TRACE": str(switch)}
        stack = Stack(
            folder / "stack", gateways=1, workers=1, task_states=1, environment=environment
        )
        with stack:
            return asyncio.run(_both(stack, switch))


async def _both(stack: Stack, switch: Path) -> dict[str, Entered]:
    async with httpx.AsyncClient(timeout=60) as http:
        echo = PlainAgent(http, stack.url, "echo")
        counter = PlainAgent(http, stack.url, "counter")

        async def echoed() -> None:
            async with echo.stream("one two three") as answer:
                assert "TASK_STATE_COMPLETED" in (await answer.aread()).decode()

        async def working() -> str:
            sent = await counter.send("100000 20", returnImmediately=True)
            task = str(sent.json()["task"]["id"])
            await asyncio.to_thread(
                until, partial(_is_working, f"{counter.url}/tasks/{task}"), task
            )
            return task

        async def nothing() -> None:
            await asyncio.sleep(_BESIDE)

        await echoed()
        await counter.cancel(await working())
        await nothing()  # What these two have left to do is theirs.
        beside = await _window(stack, switch, nothing)
        streamed = [await _window(stack, switch, echoed) for _ in range(_TIMES)]
        canceled = []
        for _ in range(_TIMES):
            task = await working()

            async def cancel(task: str = task) -> None:
                answer = await counter.cancel(task)
                assert answer.json()["status"]["state"] == "TASK_STATE_CANCELED"

            canceled.append(await _window(stack, switch, cancel))
        return {
            "one streamed echo": _files(streamed, beside),
            "one cancel": _files(canceled, beside),
        }


async def _window(stack: Stack, switch: Path, request: Callable[[], Awaitable[None]]) -> Entered:
    pids = {pid: str(p["role"]) for p in stack.processes() if (pid := p["pid"])}
    ours = {pid: role for pid, role in pids.items() if role not in {"nats", "redis"}}
    await asyncio.to_thread(_switch_on, switch, list(ours))
    await request()
    await asyncio.sleep(_SETTLE)
    return await asyncio.to_thread(_switch_off, switch, ours)


def _switch_on(switch: Path, pids: list[int]) -> None:
    for old in switch.iterdir():
        old.unlink()
    (switch / "on").touch()
    until(lambda: all((switch / f"{pid}.ready").exists() for pid in pids), "all are traced")


def _switch_off(switch: Path, roles: dict[int, str]) -> Entered:
    (switch / "on").unlink()
    until(lambda: all((switch / f"{pid}.entered").exists() for pid in roles), "all have noted it")
    entered: Entered = {}
    for pid, role in roles.items():
        functions = (switch / f"{pid}.entered").read_text().splitlines()
        entered.setdefault(role, set()).update(filter(_is_ours, functions))
    return entered


def _is_working(url: str) -> bool:
    state: str = httpx.get(url, timeout=60).json()["status"]["state"]
    return state == "TASK_STATE_WORKING"


def _is_ours(function: str) -> bool:
    return any(function.startswith(f"{ROOT / root}/") for root in SOURCE_ROOTS)


def _files(windows: list[Entered], beside: Entered) -> Entered:
    """Return the files with functions that each of `windows` has, and `beside` has not."""
    functions = {
        role: set.intersection(*(one[role] for one in windows)) - beside[role]
        for role in windows[0]
    }
    return {role: {one.partition("\t")[0] for one in found} for role, found in functions.items()}
