"""pydantic-ai's durable execution on steps: what was done is not done again."""

from pathlib import Path

import pytest

from tests.integration.worker.adapters.behaviour import BOTH, lines
from tests.integration.worker.adapters.durable_pydantic import build, clerk_of
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.integration.worker.conftest import Spawn, Working
from tests.support.log_reading import answer, folded, state
from tests.support.task_submitter import TaskSubmitter

pytestmark = pytest.mark.usefixtures("task_state")


async def test_a_worker_that_takes_over_asks_no_model_and_calls_no_tool_again(
    submitter: TaskSubmitter, working: Working, spawn: Spawn, tmp_path: Path
) -> None:
    office = Office(tmp_path)
    tom = calls(("c3", "mail", {"to": "tom"}))
    script = [BOTH, tom, replies("I ", hangs=True), replies("Mailed.")]
    async with chat_model(script) as model:
        adapter = "tests.integration.worker.adapters.durable_pydantic"
        given = {"adapter": adapter, "model": model.url, "office": tmp_path}
        imports = [adapter, "pydantic_ai.models.openai"]
        target = "tests.integration.worker.adapters.serving:agents"
        with spawn(target, imports=imports, **given) as worker:
            task = await submitter.start("notes", "Mail all.")
            await model.until_received(3)
            worker.kill()
        async with working(build(model.url, office)):
            done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Mailed.")
    assert sorted(office.done("begun")) == ["bob", "eve", "tom"]
    assert len(model.conversations) == 4
    assert lines(model.conversations[3]) == lines(model.conversations[2])


async def test_outside_of_a_run_it_is_the_agent_that_it_was(tmp_path: Path) -> None:
    async with chat_model([BOTH, replies("Mailed.")]) as model:
        result = await clerk_of(model.url, Office(tmp_path)).run("Mail both.")
    assert result.output == "Mailed."
