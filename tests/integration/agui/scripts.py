"""The agents of these tests."""

import base64

from headrace.directory import AgentCard
from headrace.model import events, parts
from headrace.model.events import PENDING_TOOL_CALLS, Json
from headrace.model.parts import text_of
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, WORKING
from tests.support.scripted_fleet import Leg, Script


async def say(leg: Leg, *said: Json, message: str) -> None:
    """Append parts as an utterance."""
    content = {"messageId": message, "role": "ROLE_AGENT", "parts": list(said)}
    await leg.append([events.status_update(leg.key.task, leg.context, WORKING, content)])


async def show(leg: Leg, artifact: str, *shown: Json, append: bool = False) -> None:
    """Append parts as an artifact's chunk."""
    body = {"artifactId": artifact, "parts": list(shown)}
    update = events.artifact_update(leg.key.task, leg.context, body, append=append)
    await leg.append([update])


async def assistant(leg: Leg) -> None:
    """Think, call a tool, answer, hand over a file."""
    await say(leg, parts.thinking_part("Hm. ", "think-1", end=True), message="m-1")
    await say(leg, parts.tool_call_part("count", {"of": "words"}, "call-1"), message="m-2")
    await say(leg, parts.tool_result_part("call-1", {"words": 2}), message="m-3")
    await show(leg, "block-1", parts.text_part("Two ", "block-1"))
    await show(leg, "block-1", parts.text_part("words.", "block-1", end=True), append=True)
    await show(leg, "file-1", parts.file_part(b"abc", "a.txt", "text/plain"))
    await leg.status(COMPLETED)


async def ending(leg: Leg) -> None:
    """End as the message says."""
    ends = {"reject": REJECTED, "fail": FAILED, "ask": INPUT_REQUIRED}
    await leg.status(ends[text_of(leg.message["parts"])], "because")


async def patient(leg: Leg) -> None:
    """Begin to answer, wait for the test, go on."""
    block = f"{leg.key.task}-{leg.leg}"
    await show(leg, block, parts.text_part("a", block))
    await leg.go_on.wait()
    await show(leg, block, parts.text_part("b", block), append=True)
    await leg.status(COMPLETED)


async def retried(leg: Leg) -> None:
    """Begin to answer, die, and do it again."""
    await show(leg, "block-1", parts.text_part("lost", "block-1"))
    await leg.go_on.wait()
    again: Json = {events.ATTEMPT: 2, events.WORKER: "w", events.DISCARDED_AFTER: leg.leg}
    await leg.append([leg.status_draft(WORKING, metadata=again)])
    await show(leg, "block-1", parts.text_part("found", "block-1"))
    await leg.status(COMPLETED)


async def large(leg: Leg) -> None:
    """Say more than a gateway keeps of a task."""
    text = base64.b64encode(bytes(range(256)) * 200).decode()
    for number in range(40):
        await show(leg, f"block-{number}", parts.text_part(text, f"block-{number}"))
    await leg.status(COMPLETED)


async def painter(leg: Leg) -> None:
    """Call the user interface's tool and wait for it; then say what it answered."""
    results = [parts.tool_result(part) for part in leg.message["parts"]]
    if any(results):
        block = f"{leg.key.task}-{leg.leg}"
        said = ", ".join(result.content for result in results if result)
        await show(leg, block, parts.text_part(said, block))
        await leg.status(COMPLETED)
        return
    call = f"call-{leg.key.task}"
    await say(leg, parts.tool_call_part("paint", {"colour": "red"}, call), message=f"m-{call}")
    pending = {PENDING_TOOL_CALLS: [call]}
    await leg.append([leg.status_draft(INPUT_REQUIRED, metadata=pending)], INPUT_REQUIRED)


AGENTS: dict[str, tuple[AgentCard, Script]] = {
    "assistant": (AgentCard(name="assistant", input_modes=["*/*"]), assistant),
    "ending": (AgentCard(name="ending"), ending),
    "patient": (AgentCard(name="patient"), patient),
    "refusing": (AgentCard(name="refusing", follow_ups="reject"), patient),
    "yielding": (AgentCard(name="yielding", follow_ups="interrupt"), patient),
    "retried": (AgentCard(name="retried"), retried),
    "painter": (AgentCard(name="painter"), painter),
    "large": (AgentCard(name="large"), large),
}
