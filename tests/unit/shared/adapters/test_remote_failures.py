"""Whose failure it is decides whether an outside agent's task is canceled."""

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from a2a.types import StreamResponse, TaskStatusUpdateEvent
from a2a.utils.errors import ContentTypeNotSupportedError

from headrace.adapters.a2a.remote_client import Remote
from headrace.adapters.a2a.remote_run import RemoteRun, Timeouts
from headrace.model.errors import BusUnavailable, LogLost
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Retryable, RunOver
from headrace.sdk.policy import Retry


class OutsideAgent:
    """Stands for a remote agent whose task is at work."""

    def __init__(self) -> None:
        self.canceled: list[str] = []
        self.place = SimpleNamespace(credentials=None)

    async def send(self, *_: object) -> AsyncIterator[StreamResponse]:
        yield StreamResponse(status_update=TaskStatusUpdateEvent(task_id="theirs", context_id="c"))

    async def cancel(self, task: str) -> None:
        self.canceled.append(task)


def context(error: Exception) -> RunContext:
    """Return the context of a first run, whose log takes nothing and answers with `error`."""

    async def emit(_: object) -> None:
        raise error

    run: Any = SimpleNamespace(
        task="ours", run=1, context="c", tenant="acme", owner="eve", agent="outside", metadata={}
    )
    run.message, run.checkpoint_data, run.extensions, run.accepted_output_modes = {}, None, (), ()
    run.emit, run.is_stopped, run.log = emit, False, logging.getLogger(__name__)
    return cast("RunContext", run)


async def failed(error: Exception) -> OutsideAgent:
    """Return the agent, after a run of it that ended with `error`."""
    agent = OutsideAgent()
    remote = cast("Remote", agent)
    retry = Retry(on=(KeyError, ContentTypeNotSupportedError))
    with pytest.raises(type(error)):
        await RemoteRun(context(error), remote, Timeouts(1.0, 1.0, 0.0), retry).run()
    return agent


@pytest.mark.parametrize(
    "error",
    [
        BusUnavailable("x"),
        Retryable("x"),
        RunOver("x"),
        LogLost("x"),
        KeyError("x"),
        ExceptionGroup("x", [KeyError("x")]),
        ContentTypeNotSupportedError("x"),
    ],
)
async def test_it_goes_on_while_another_attempt_may_follow_it(error: Exception) -> None:
    assert (await failed(error)).canceled == []


async def test_it_is_canceled_when_the_run_fails() -> None:
    assert (await failed(ValueError("x"))).canceled == ["theirs"]
