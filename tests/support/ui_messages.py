"""What the AI SDK's client makes of chunks: the rules of `processUIMessageStream` in `ai` 7."""

from dataclasses import dataclass, field
from typing import Any

from headrace.model.events import Json
from headrace.model.json_text import decode_foreign

_BLOCKS = ("text", "reasoning")


@dataclass
class UiMessage:
    """One message of a client that reads a stream."""

    id: str = ""
    parts: list[Json] = field(default_factory=list)
    open: dict[tuple[str, str], Json] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    finish: str = ""
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Calls that the client was asked to execute."""

    def take_all(self, chunks: list[Json]) -> "UiMessage":
        """Read chunks, as the client does.

        Raises:
            AssertionError: the client would give up on one.
        """
        for chunk in chunks:
            self._take(chunk)
        return self

    @property
    def text(self) -> str:
        """All text."""
        return "".join(one["text"] for one in self.parts if one["type"] == "text")

    def _take(self, chunk: Json) -> None:
        kind, _, what = chunk["type"].rpartition("-")
        if kind in _BLOCKS:
            self._block(kind, what, chunk)
        elif kind.startswith("tool-"):
            self._tool(chunk)
        elif kind == "data" or kind.startswith("data-"):
            self._data(chunk)
        else:
            self._other(chunk)

    def _other(self, chunk: Json) -> None:
        match chunk["type"]:
            case "start":
                self.id = chunk["messageId"]
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "reset-step":
                steps = [at for at, one in enumerate(self.parts) if one["type"] == "step-start"]
                del self.parts[steps[-1] + 1 :]
                self.open, self.inputs = {}, {}
            case "finish":
                self.finish = chunk["finishReason"]
            case "error":
                self.errors.append(chunk["errorText"])
            case "file" | "source-url" | "steering-message":
                self.parts.append(chunk)
            case other:
                assert other in {"finish-step", "abort"}

    def _block(self, kind: str, what: str, chunk: Json) -> None:
        key = kind, chunk["id"]
        if what == "start":
            self.open[key] = {"type": kind, "text": "", "state": "streaming"}
            self.parts.append(self.open[key])
        elif what == "delta":
            self.open[key]["text"] += chunk["delta"]
        else:
            self.open.pop(key)["state"] = "done"

    def _data(self, chunk: Json) -> None:
        for one in self.parts:
            if "id" in chunk and (one["type"], one.get("id")) == (chunk["type"], chunk["id"]):
                one["data"] = chunk["data"]
                return
        self.parts.append(dict(chunk))

    def _tool(self, chunk: Json) -> None:
        match chunk["type"]:
            case "tool-input-start":
                self.inputs[chunk["toolCallId"]] = ""
                self._set(chunk, state="input-streaming", input=None)
            case "tool-input-delta":
                assert chunk["toolCallId"] in self.inputs
                self.inputs[chunk["toolCallId"]] += chunk["inputTextDelta"]
            case "tool-input-available":
                self._set(chunk, state="input-available", input=chunk["input"])
                if not chunk["providerExecuted"]:
                    self.asked.append(chunk["toolCallId"])
            case "tool-approval-request":
                self._of(chunk)["state"] = "approval-requested"
                self._of(chunk)["approval"] = chunk["approvalId"]
            case "tool-approval-response":
                [part] = [one for one in self.parts if one.get("approval") == chunk["approvalId"]]
                part["state"], part["approved"] = "approval-responded", chunk["approved"]
            case "tool-output-denied":
                self._of(chunk)["state"] = "output-denied"
            case "tool-output-available":
                self._of(chunk).update(state="output-available", output=chunk["output"])
            case "tool-output-error":
                self._of(chunk).update(state="output-error", error=chunk["errorText"])
            case other:
                raise AssertionError(other)

    def _set(self, chunk: Json, **state: Any) -> None:  # noqa: ANN401 - any JSON
        steps = [at for at, one in enumerate(self.parts) if one["type"] == "step-start"]
        found = [one for one in self.parts[steps[-1] :] if one.get("call") == chunk["toolCallId"]]
        if not found:
            found = [{"type": f"tool-{chunk['toolName']}", "call": chunk["toolCallId"]}]
            self.parts += found
        found[0].update(type=f"tool-{chunk['toolName']}", **state)

    def _of(self, chunk: Json) -> Json:
        """Return the part of a call, which the client must have."""
        return [one for one in self.parts if one.get("call") == chunk["toolCallId"]][-1]


def chunks_of(frames: list[bytes]) -> list[Json]:
    """Return the chunks of server-sent events, without the mark of the end."""
    data = [one.removeprefix(b"data: ").strip() for one in frames]
    return [decode_foreign(one) for one in data if one != b"[DONE]"]
