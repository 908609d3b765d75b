"""A LangGraph agent over LangChain's OpenAI client, in the suite of all adapters."""

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, override

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from headrace import Agent
from headrace_worker.adapters import langgraph_agent
from tests.integration.worker.adapters.behaviour import (
    ApprovalsInTime,
    AsksItsModel,
    Images,
    StreamsArguments,
)
from tests.integration.worker.adapters.office import Office


class FileSaver(InMemorySaver):
    """Keeps its checkpoints in a file, for a worker that takes over from a dead one."""

    def __init__(self, file: Path) -> None:
        """Keep them in `file`."""
        super().__init__()
        self._file = file
        if file.exists():
            storage, writes, blobs = pickle.loads(file.read_bytes())  # noqa: S301  # our own
            for thread, spaces in storage.items():
                self.storage[thread] = defaultdict(dict, spaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

    @override
    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        kept = await super().aput(*args, **kwargs)
        self._write()
        return kept

    @override
    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await super().aput_writes(*args, **kwargs)
        self._write()

    def _write(self) -> None:
        storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
        held = pickle.dumps((storage, dict(self.writes), self.blobs))
        draft = self._file.with_suffix(".draft")
        draft.write_bytes(held)
        draft.replace(self._file)


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    asked: Any = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}
    review: Any = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    graph = create_agent(
        ChatOpenAI(**asked),
        [tool(office.mail), tool(office.refund)],
        middleware=[review],
        system_prompt="Be brief.",
        checkpointer=FileSaver(office.folder / "checkpoints"),
    )
    return langgraph_agent(graph, name="agent", backoff=0.0, **options)


class TestLangGraph(StreamsArguments, AsksItsModel, Images, ApprovalsInTime):
    """Its behaviour."""

    within = "answer_within"
    hears_words_beside = False
