"""A chat's messages, as a page holds them that has read all of its streams."""

from collections.abc import Callable

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.protocols.ai_sdk.chunks import REASONING, START, TEXT
from headrace_gateway.protocols.ai_sdk.content import file_url
from headrace_gateway.protocols.ai_sdk.fold import ChatFold

_BLOCKS = frozenset({TEXT, REASONING})
_WHOLE = frozenset({"file", "source-url", "steering-message"})
"""Chunks that are parts of the message as they are."""


class Answer:
    """One message of the agent, made of its chunks by the rules of the SDK's client."""

    def __init__(self, start: Json) -> None:
        """Begin with the chunk `start`."""
        self.message: Json = {
            "id": start["messageId"],
            "metadata": start["messageMetadata"],
            "role": "assistant",
            "parts": [],
        }
        self._open: dict[tuple[str, str], Json] = {}
        self._texts: dict[tuple[str, str], list[str]] = {}
        """The pieces of open blocks, which are joined once."""
        self._tools: dict[str, Callable[[Json, Json], None]] = {
            "tool-approval-request": _asked,
            "tool-approval-response": _decided,
            "tool-output-available": _has_output,
            "tool-output-error": _has_failed,
            "tool-output-denied": lambda part, _: part.update(state="output-denied"),
        }

    def take(self, chunk: Json) -> None:
        """Apply the next chunk."""
        kind, _, what = chunk["type"].rpartition("-")
        parts: list[Json] = self.message["parts"]
        if kind in _BLOCKS:
            self._block(kind, what, chunk)
        elif chunk["type"] in {"start-step", "reset-step"}:
            self._step(kind)
        elif (change := self._tools.get(chunk["type"])) is not None:
            change(self._call(chunk), chunk)
        elif chunk["type"] == "tool-input-available":
            self._has_input(chunk)
        elif chunk["type"] in _WHOLE:
            parts.append(chunk)
        elif chunk["type"].startswith("data-"):
            self._data(chunk)
        elif chunk["type"] == "finish":
            self.message["metadata"] = self.message["metadata"] | chunk.get("messageMetadata", {})

    def _block(self, kind: str, what: str, chunk: Json) -> None:
        key = kind, chunk["id"]
        if what == "start":
            named = {"id": chunk["id"]} if kind == REASONING else {}
            self._open[key] = {"type": kind, **named, "text": "", "state": "streaming"}
            self._texts[key] = []
            self.message["parts"].append(self._open[key])
        elif what == "delta":
            self._texts[key].append(chunk["delta"])
        else:
            self._open.pop(key).update(text="".join(self._texts.pop(key)), state="done")

    def settle(self, *, is_over: bool) -> None:
        """Join the texts of the blocks that are still open; nothing is known to follow.

        A run whose user has sent more meanwhile ends with no chunk: `is_over` says so.
        """
        for key, part in self._open.items():
            part["text"] = "".join(self._texts[key])
            if is_over:
                part["state"] = "done"

    def _step(self, kind: str) -> None:
        parts = self.message["parts"]
        if kind == "start":
            parts.append({"type": "step-start"})
            return
        steps = [at for at, part in enumerate(parts) if part["type"] == "step-start"]
        del parts[steps[-1] + 1 :]
        self._open, self._texts = {}, {}

    def _data(self, chunk: Json) -> None:
        for part in self.message["parts"] if "id" in chunk else ():
            if (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                part["data"] = chunk["data"]
                return
        self.message["parts"].append(dict(chunk))

    def _has_input(self, chunk: Json) -> None:
        part = self._call(chunk)
        if not part:
            part |= {"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"]}
            self.message["parts"].append(part)
        part |= {"state": "input-available"}
        part |= {name: chunk[name] for name in ("input", "providerExecuted")}

    def _call(self, chunk: Json) -> Json:
        """Return the part of the call that a chunk is about; an empty one if there is none."""
        name, approval = chunk.get("toolCallId"), chunk.get("approvalId")
        for part in reversed(self.message["parts"]):
            if name is not None and part.get("toolCallId") == name:
                return part  # type: ignore[no-any-return] # parts are objects
            if name is None and (part.get("approval") or {}).get("id") == approval:
                return part  # type: ignore[no-any-return] # parts are objects
        return {}


def _asked(part: Json, chunk: Json) -> None:
    reason = {"requestReason": chunk["reason"]} if "reason" in chunk else {}
    part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"], **reason}}


def _decided(part: Json, chunk: Json) -> None:
    decision = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
    part |= {"state": "approval-responded", "approval": {**part["approval"], **decision}}


def _has_output(part: Json, chunk: Json) -> None:
    part |= {"state": "output-available", "output": chunk["output"], **_executed(chunk)}


def _has_failed(part: Json, chunk: Json) -> None:
    part |= {"state": "output-error", "errorText": chunk["errorText"], **_executed(chunk)}


def _executed(chunk: Json) -> Json:
    name = "providerExecuted"
    return {name: chunk[name]} if name in chunk else {}


def messages_of(task: str, entries: list[Entry]) -> list[Json]:
    """Return the UI messages of one task's log, the user's and the agent's."""
    found = list[Json]()
    fold, answer = ChatFold(task), None
    for entry in entries:
        for chunk in fold.read(entry):
            if chunk.content["type"] == START:
                if answer is not None:
                    answer.settle(is_over=True)
                found += _users(entry, chunk.generation)
                answer = Answer(chunk.content)
                found.append(answer.message)
            elif answer is not None:
                answer.take(chunk.content)
    if answer is not None:
        answer.settle(is_over=False)
    return found


def _users(entry: Entry, generation: int) -> list[Json]:
    """Return the user's message in the input of that generation; none if the input is gone."""
    if generation != entry.stamp.run:
        return []
    event = entry.events[generation - entry.generation]
    body = event.get("task") or event["statusUpdate"]
    history: list[Json] = body.get("history") or [body["status"].get("message") or {}]
    message = history[-1]
    parts = [_users_part(part) for part in message.get("parts", ())]
    return [{"parts": parts, "id": message.get("messageId", ""), "role": "user"}]


def _users_part(part: Json) -> Json:
    if "text" in part and not part.get("filename"):
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "data-input", "data": part["data"]}
    media_type = part.get("mediaType") or ""
    named = {"filename": part["filename"]} if part.get("filename") else {}
    return {"type": "file", "mediaType": media_type, **named, "url": file_url(part, media_type)}
