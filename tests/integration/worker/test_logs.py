"""What a worker process logs, as JSON and by level."""

import json
import os
import signal
from typing import Any

from headrace.model.messages import RunRequest
from tests.integration.worker.conftest import Spawn
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

TARGET = "tests.support.failing_agents:agents"


def lines(worker: WorkerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker.output().splitlines()]


async def until_written(worker: WorkerProcess, text: str) -> None:
    async def is_written() -> bool:
        return text in worker.output()

    await eventually(is_written, f"{text} is logged")


async def test_each_line_of_an_attempt_names_it_and_tokens_make_none(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    worker = spawn(TARGET, log_format="json")
    before = len(lines(worker))
    trace = "0af7651916cd43dd8448eb211c80319c"
    task = await submitter.start("failing", publish=False)
    request = RunRequest(
        log=task.log,
        context=task.context,
        owner=task.owner,
        traceparent=f"00-{trace}-b7ad6b7169203331-01",
    )
    await task.publish(1, request.encode())
    await task.ended()
    await until_written(worker, "shelves\\nare empty")
    own, failed = lines(worker)[before:]
    found = {"task": task.key.task, "run": 1, "attempt": 1, "agent": "failing", "trace_id": trace}
    assert found.items() <= own.items()
    assert found.items() <= failed.items()
    assert (own["logger"], own["message"]) == ("shop", "looking at the shelves")
    assert failed["level"] == "error"
    assert failed["exception"].endswith("ValueError: the shelves\nare empty")


async def test_a_signal_shows_debug_lines_and_hides_them_again(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    worker = spawn(TARGET, log_format="json")
    task = await submitter.start("failing")
    await task.ended()
    os.kill(worker.pid, signal.SIGUSR2)
    await until_written(worker, "log level: debug")
    await task.publish(1)
    await until_written(worker, "dropped a run of task")
    os.kill(worker.pid, signal.SIGUSR2)
    await until_written(worker, "log level: info")
    worker.stop()
    assert sum(line["level"] == "debug" for line in lines(worker)) == 1
