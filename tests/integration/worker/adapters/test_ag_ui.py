"""An AG-UI backend, pydantic-ai's own AG-UI adapter over HTTP, in the suite of all adapters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, override

import pytest

from headrace import Agent, Retry
from headrace.adapters import ag_ui_agent
from headrace.model.events import Json
from tests.integration.worker.adapters.agui_backend import pydantic_backend
from tests.integration.worker.adapters.behaviour import (
    BOB,
    BOTH,
    PAINT,
    REFUND,
    ApprovalsBesideClientTools,
    Images,
    Kill,
    Serve,
    StreamsArguments,
    answered,
    approval,
    interrupts,
    until_printed,
)
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import (
    Model,
    Refuses,
    Script,
    chat_model,
    replies,
)
from tests.integration.worker.conftest import Working
from tests.support.log_reading import answer, folded, state
from tests.support.task_submitter import TaskSubmitter


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401
    """Make the agent of the backend at `url`, which works in the office itself."""
    del office
    return ag_ui_agent(url, name="agent", retry=Retry(backoff=0.0), **options)


class TestAgUi(StreamsArguments, Images, ApprovalsBesideClientTools):
    """Its behaviour."""

    refuses_names = True
    labels_arguments = False
    calls_tools = False

    @pytest.fixture(autouse=True)
    def _in_office(self, office: Office) -> None:
        self._office = office

    @asynccontextmanager
    async def model(self, script: Script) -> AsyncIterator[Model]:
        """Serve a model, and the backend before it."""
        async with (
            chat_model(script) as model,
            pydantic_backend(model.url, self._office) as url,
        ):
            model.url = url
            yield model

    @override
    @pytest.mark.parametrize("error", [[Refuses(429)] * 4], ids=["busy"])
    async def test_an_error_after_a_tool_round_repeats_the_request_and_no_tool(
        self, submitter: TaskSubmitter, serve: Serve, office: Office, error: list[Any]
    ) -> None:
        """The model is the backend's to ask again; what it gives up ends the run (RUN_ERROR)."""
        async with serve([BOB, *error]):
            done = await folded(await submitter.start("agent", "Mail bob."))
        assert (state(done), office.done("begun")) == ("FAILED", ["bob"])

    @override
    async def test_an_error_behind_an_approval_repeats_the_request_alone(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        """As above."""
        async with serve([REFUND, *[Refuses(429)] * 4]):
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
        assert (state(done), office.done("refunded")) == ("FAILED", ["A1:5"])

    @override
    async def test_a_worker_killed_inside_a_round_has_the_finished_tools_not_run_again(
        self, submitter: TaskSubmitter, office: Office, kill: Kill, working: Working
    ) -> None:
        """The tools are the backend's: one that had not ended is told to its model as such."""
        office.hold("eve")
        async with self.model([BOTH, replies("Done.")]) as model:
            with kill(model) as worker:
                task = await submitter.start("agent", "Mail both.")
                await until_printed(task, "sent to bob")
                worker.kill()
            async with working(self.build(model.url, office)):
                done = await folded(task)
            office.release("eve")
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        assert office.done("begun").count("bob") == 1
        received = [each for each in model.conversations[1] if each.answers]
        assert [each.answers for each in received if each.text == "sent to bob"] == ["c1"]

    @override
    async def test_a_clients_tool_of_the_agents_own_name_is_the_agents(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        """As above."""
        agui: Json = {"tools": [{**PAINT, "name": "mail"}]}
        async with serve([BOB]):
            metadata = {"headrace.agui": agui}
            done = await folded(await submitter.start("agent", "Mail bob.", metadata=metadata))
        assert (state(done), office.done("sent")) == ("FAILED", [])
