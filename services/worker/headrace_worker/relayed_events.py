"""Encoding of output that a run relays from another agent."""

from collections.abc import Sequence
from typing import Any

from headrace.model import events, parts
from headrace.model.events import Draft, Json
from headrace.model.relayed import foreign, hinted, is_bare_text
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, TERMINAL, WORKING
from headrace.sdk.emit import Artifact, Outcome, RelayedMessage
from headrace.sdk.errors import MalformedOutput
from headrace_worker.blocks import Blocks, RunIds

PART_KINDS = {"text", "raw", "url", "data"}
"""Fields of which a Part has one."""

_ENDS = TERMINAL | {INPUT_REQUIRED}

_MESSAGE = "message"
"""Event type of answer text outside a block."""


class RelayedEvents:
    """Encoder of the output that one run relays from another agent."""

    def __init__(self, task: str, context: str, ids: RunIds, blocks: Blocks) -> None:
        """Encode for one run of `task` in `context`; new blocks get their indices from `blocks`."""
        self._task, self._context, self._ids, self._blocks = task, context, ids, blocks
        self._indices: dict[str, int] = {}

    def draft(self, output: Artifact | RelayedMessage) -> Draft:
        """Return the event for `output`.

        Raises:
            MalformedOutput: a part is not an A2A Part, or the artifact has no id.
        """
        return self._artifact(output) if isinstance(output, Artifact) else self._message(output)

    def _artifact(self, output: Artifact) -> Draft:
        if not output.id:
            raise MalformedOutput("an artifact must have an id")
        shown = [self._answer(part, output.id) for part in checked(output.parts)]
        named = {
            "name": output.name,
            "description": output.description,
            "metadata": output.metadata,
        }
        more = {**named, "extensions": list(output.extensions)}
        artifact = {"artifactId": output.id, **{k: v for k, v in more.items() if v}, "parts": shown}
        return events.artifact_update(
            self._task,
            self._context,
            artifact,
            append=output.append,
            last_chunk=output.last_chunk,
        )

    def _message(self, output: RelayedMessage) -> Draft:
        content = [hinted(part, parts.TASK) for part in checked(output.parts)]
        name = output.id or self._ids.mint("message")
        message = {"messageId": name, "role": "ROLE_AGENT", "parts": content} if content else None
        metadata = foreign(output.metadata)
        return events.status_update(self._task, self._context, WORKING, message, metadata)

    def _answer(self, part: Json, artifact: str) -> Json:
        if not is_bare_text(part):
            return part
        if artifact not in self._indices:
            self._indices[artifact] = self._blocks.next_index
            self._blocks.next_index += 1
        metadata = parts.text_part("", artifact, self._indices[artifact])["metadata"]
        return {**part, "metadata": {**metadata, **part.get("metadata", {})}}


def end_parts(output: Outcome) -> list[Json]:
    """Return the parts of a run's last message.

    Raises:
        MalformedOutput: a part is not an A2A Part, or the state does not end a run.
    """
    if output.state not in _ENDS:
        raise MalformedOutput(f"{output.state!r} is not a state that can end a run")
    kind = _MESSAGE if output.state in {COMPLETED, INPUT_REQUIRED} else parts.TASK
    kind = parts.ERROR if output.state in {FAILED, REJECTED} else kind
    return [hinted(part, kind) for part in checked(output.parts)]


def checked(content: Sequence[Any]) -> Sequence[Json]:
    """Return `content` if all its items are A2A Parts.

    Raises:
        MalformedOutput: an item is not an A2A Part.
    """
    for number, part in enumerate(content):
        if not isinstance(part, dict) or not PART_KINDS & part.keys():
            raise MalformedOutput(f"parts[{number}] needs text, raw, url or data")
        if not isinstance(part.get("text", ""), str):
            raise MalformedOutput(f"parts[{number}].text must be a string")
        if not isinstance(part.get("metadata", {}), dict):
            raise MalformedOutput(f"parts[{number}].metadata must be an object")
    return content
