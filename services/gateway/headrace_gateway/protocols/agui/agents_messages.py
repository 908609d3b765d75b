"""Snapshots in which the agent replaces the conversation that the client holds."""

from ag_ui.core import Message
from pydantic import TypeAdapter, ValidationError

from headrace.model.events import Json
from headrace.model.json_patch import Document
from headrace_gateway.protocols.agui.blocks import REASONING, TEXT
from headrace_gateway.protocols.agui.call_names import CallNames
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.snapshot import snapshot_of
from headrace_gateway.protocols.agui.tool_calls import KIND
from headrace_gateway.protocols.agui.view import ClientMessage, Held, HeldActivity, View

_HELD_BY_MESSAGES = frozenset({TEXT.use, REASONING.use, KIND})


class AgentsMessages:
    """Emits the agent's MESSAGES_SNAPSHOT and updates the view."""

    def __init__(self, output: Output, view: View, calls: CallNames) -> None:
        """Emit to `output`; `calls` are the ids of its calls."""
        self._output, self._view, self._calls = output, view, calls

    def snapshot(self, part: Json, _message: str) -> None:
        """Emit the conversation, a data part with AG-UI Messages.

        Raises:
            ValueError: the data is not AG-UI messages, or two messages have the same id.
        """
        if self._output.subagent:
            # A subagent's conversation is separate, and the event has no field for the subagent
            # run.
            return
        messages = self._with_clients_ids(_validated(part["data"]))
        for key in reversed([*self._output.open]):
            if key[0] in _HELD_BY_MESSAGES:
                # Output after the snapshot starts a new item.
                self._output.end(key)
        new = {message["id"]: _held(message) for message in messages}
        held = self._view.messages
        # Messages of children are not part of their parent's conversation and are kept.
        childrens = {k: m for k, m in held.items() if m.subagent and k not in new}
        self._view.messages = self._merged(new, childrens)
        shown = [message.shown() for message in childrens.values()]
        self._output.emit("MESSAGES_SNAPSHOT", **snapshot_of([*messages, *shown]))

    def _with_clients_ids(self, messages: list[Json]) -> list[Json]:
        """Return the messages with the clients' ids of what the run has emitted.

        An id that recurs stands for the run's call in its last message only.
        """
        named = dict[str, str]()
        shown = list[Json]()
        for message in reversed(messages):
            known = self._output.unique(message["id"])
            changed = {**message, "id": known} if known in self._view.messages else message
            if (calls := message.get("toolCalls")) is not None:
                renamed = [{**call, "id": self._call(call["id"], named)} for call in calls]
                changed = {**changed, "toolCalls": renamed}
            elif (call := message.get("toolCallId")) is not None and call not in named:
                changed = {**changed, "toolCallId": self._calls.latest(call) or call}
            shown.append(changed)
        return shown[::-1]

    def _call(self, own: str, named: dict[str, str]) -> str:
        if own in named:
            return own
        named[own] = self._calls.latest(own) or own
        return named[own]

    def _merged(self, own: dict[str, Held], childrens: dict[str, Held]) -> dict[str, Held]:
        """Return the messages as the official client merges them: in its own order, new ones last.

        The client keeps activities, and reasoning if the snapshot has none.
        """
        new = own | childrens
        has_reasoning = any(held.shown()["role"] == "reasoning" for held in new.values())
        kept = {"activity"} if has_reasoning else {"activity", "reasoning"}
        merged: dict[str, Held] = {}
        for key, held in self._view.messages.items():
            if key in new:
                merged[key] = new[key]
            elif held.shown()["role"] in kept:
                merged[key] = held
        for key, held in own.items():
            self._view.ids[key] = "activity" if isinstance(held, HeldActivity) else "given"
        return merged | new


def _held(message: Json) -> Held:
    if message["role"] == "activity":
        return HeldActivity(message["id"], message["activityType"], Document(message["content"]))
    return ClientMessage(message)


_MESSAGES = TypeAdapter(list[Message])


def _validated(value: object) -> list[Json]:
    try:
        messages = _MESSAGES.validate_python(value)
    except ValidationError:
        raise ValueError("the messages are not valid AG-UI messages") from None
    if len({message.id for message in messages}) != len(messages):
        raise ValueError("two messages have the same id")
    content: list[Json] = _MESSAGES.dump_python(
        messages, mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    return content
