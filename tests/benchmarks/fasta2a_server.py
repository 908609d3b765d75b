"""fasta2a's server, all in memory, with an agent equal to our `counter` and `paced`.

Run as ``python -m tests.benchmarks.fasta2a_server``; prints ``ready <url>``.
"""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage

_AT_ONCE = 512
"""How many tasks run side by side: one of its workers takes the next task when one has ended."""


class Counter(Worker[None]):
    """``N [delay_ms [hold_ms]]``: what the counters of the other servers say."""

    async def run_task(self, params: TaskSendParams) -> None:
        """Count, and keep the whole artifact at the end, as fasta2a's own bridge does."""
        task, context = params["id"], params["context_id"]
        await self.storage.update_task(task, state="working")
        await self.publish_status(task, context, "working")
        [request] = params["message"]["parts"]
        count, delay, hold = (*map(int, request["text"].split()), 0, 0)[:3]
        await asyncio.sleep(hold / 1000)
        outputs = []
        for number in range(1, count + 1):
            part = Part(text=f"{number} {time.time_ns()} " if hold else f"{number} ")
            outputs.append(part)
            chunk = Artifact(artifact_id="count", parts=[part])
            last = number == count
            await self.publish_artifact(task, context, chunk, append=number > 1, last_chunk=last)
            if delay:
                await asyncio.sleep(delay / 1000)
        await self.storage.update_task(
            task, state="completed", new_artifacts=self.build_artifacts(outputs)
        )

    async def cancel_task(self, params: TaskIdParams) -> None:
        """Stop; nothing that is measured cancels."""

    def build_message_history(self, history: list[Message]) -> list[Any]:
        """Return what the agent is told of the history."""
        return [*history]

    def build_artifacts(self, result: Sequence[Part]) -> list[Artifact]:
        """Return the artifact of what was said."""
        return [Artifact(artifact_id="count", parts=[*result])]


def application(url: str) -> FastA2A:
    """Return the server's application, whose workers run in its own process."""
    storage: InMemoryStorage[None] = InMemoryStorage()  # type: ignore[no-untyped-call]
    broker = InMemoryBroker()

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, AsyncExitStack() as running:
            for _ in range(_AT_ONCE):
                await running.enter_async_context(Counter(broker=broker, storage=storage).run())
            yield

    return FastA2A(storage=storage, broker=broker, name="counter", url=url, lifespan=lifespan)


def main() -> None:
    """Serve on a free port until ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
    # uvicorn as the gateway has it.
    config = uvicorn.Config(
        application(url), loop="uvloop", http="httptools", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
