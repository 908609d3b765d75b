"""Tools of frameworks that are declared to be steps: recorded, and with a key that none sees."""

from importlib import import_module
from pathlib import Path

import pytest

from headrace import once
from headrace.model.step import StepRecord
from headrace.model.task import COMPLETED
from tests.integration.worker.adapters.behaviour import BOB
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter


class CarefulOffice(Office):
    """Mails are steps."""

    def __init__(self, folder: Path) -> None:
        """Work in `folder`."""
        super().__init__(folder)

        async def mail(to: str, idempotency_key: str) -> str:
            """Send a mail."""
            await self._note("sent", f"{to}:{len(idempotency_key)}")
            return f"sent to {to}"

        vars(self)["mail"] = once(mail)


@pytest.mark.usefixtures("task_state")
@pytest.mark.parametrize(
    ("module", "model"),
    [
        ("test_pydantic_ai", chat_model),
        ("test_openai_agents", chat_model),
        ("test_langgraph", chat_model),
        ("test_google_adk", gemini_model),
        ("test_openai", chat_model),
    ],
)
async def test_a_tool_of_each_framework_can_be_a_step(
    submitter: TaskSubmitter, working: Working, tmp_path: Path, module: str, model: object
) -> None:
    office = CarefulOffice(tmp_path)
    build = import_module(f"tests.integration.worker.adapters.{module}").build
    assert callable(model)
    async with model([BOB, replies("Mailed.")]) as served, working(build(served.url, office)):
        task = await submitter.start("agent", "Mail bob.")
        entries = await task.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert office.done("sent") == ["bob:36"]
    headers = [(entry.stamp.step, entry.last_generation) for entry in entries]
    [record] = [StepRecord.decode(step, at) for step, at in headers if step is not None]
    assert record is not None
    assert record.value == '"sent to bob"'
    assert record.id[0].startswith("tool:mail ")
