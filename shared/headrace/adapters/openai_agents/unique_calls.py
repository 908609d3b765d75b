"""Ids of tool calls that are unique in a run, for models that number their calls anew each time.

The SDK refuses a call whose id an earlier call of the run had (`ModelBehaviorError`).
"""

import copy
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agents import Agent, Handoff, RunConfig, RunContextWrapper, handoff
from agents.models.interface import Model, ModelProvider

from headrace.adapters.call_ids import CallIds


@dataclass(slots=True)
class UniqueCalls:
    """Renames calls in the responses of one run's models."""

    ids: CallIds
    """Those of the conversation's calls."""
    _copies: dict[int, tuple[Agent[Any], Agent[Any]]] = field(default_factory=dict)
    """Agents and their copies, by the agents' identity."""

    def config(self, config: RunConfig) -> RunConfig:
        """Return the configuration with models whose calls have unique ids."""
        model = config.model
        return replace(
            config,
            model=self.model(model) if isinstance(model, Model) else model,
            model_provider=_UniqueCallsProvider(config.model_provider, self),
        )

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return a copy of the agent with such a model; so are those that it hands over to.

        It is the same copy each time: the SDK tells by an agent's identity what it has used.
        """
        _, copied = self._copies.get(id(agent), (None, None))
        if copied is None:
            own = agent.model
            copied = agent.clone(
                model=self.model(own) if isinstance(own, Model) else own,
                model_settings=agent.model_settings,
                handoffs=[self._handoff(each) for each in agent.handoffs],
            )
            self._copies[id(agent)] = agent, copied
        return copied

    def _handoff(self, to: Agent[Any] | Handoff[Any, Any]) -> Handoff[Any, Any]:
        # Agents are copied as they are handed over to: they may hand over to each other.
        copied = copy.copy(to) if isinstance(to, Handoff) else handoff(to)
        invoke = copied.on_invoke_handoff

        async def invoke_copy(ctx: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self.agent(await invoke(ctx, arguments))

        copied.on_invoke_handoff = invoke_copy
        return copied

    def model(self, model: Model) -> Model:
        """Return a copy of `model` whose calls have unique ids."""
        copied, stream = copy.copy(model), model.stream_response
        # The SDK asks for the classes of models, so that the copy is no class of its own.
        vars(copied)["stream_response"] = lambda *args, **kwargs: self._renamed(
            stream(*args, **kwargs)
        )
        return copied

    async def _renamed(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        given, ids = dict[int, str](), _ResponseIds(self.ids)
        async for event in events:
            match event.type:
                case "response.output_item.added" if event.item.type == "function_call":
                    event.item.call_id = given[event.output_index] = ids.add(event.item.call_id)
                case "response.output_item.done" if event.output_index in given:
                    event.item.call_id = given[event.output_index]
                case "response.completed":
                    ids.rename(event.response.output)
            yield event


class _ResponseIds:
    """The ids of one response's calls."""

    def __init__(self, run: CallIds) -> None:
        self._run = run
        self._streamed = defaultdict[str, list[str]](list)
        """By the model's id, those given to calls that the complete response still has."""
        self._given = set[str]()

    def add(self, theirs: str) -> str:
        """Return the id of a call whose events begin."""
        own = self._new(theirs)
        self._streamed[theirs].append(own)
        return own

    def rename(self, items: Iterable[Any]) -> None:
        """Give the calls of the complete response the ids that they have in its events."""
        for item in items:
            if item.type != "function_call":
                continue
            if streamed := self._streamed[item.call_id]:
                item.call_id = streamed.pop(0)
            elif item.call_id not in self._given:
                item.call_id = self._new(item.call_id)
            # Else it is an object that an earlier event had, with its new id.

    def _new(self, theirs: str) -> str:
        own = self._run.add(theirs)
        self._given.add(own)
        return own


class _UniqueCallsProvider(ModelProvider):
    def __init__(self, provider: ModelProvider, calls: UniqueCalls) -> None:
        self._provider, self._calls = provider, calls

    def get_model(self, model_name: str | None) -> Model:
        return self._calls.model(self._provider.get_model(model_name))
