"""Agents for the AG-UI tests."""

import base64

from headrace.directory import AgentCard
from headrace.model import events, parts
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.parts import text_of
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, WORKING
from tests.support.scripted_fleet import Run, Script


async def say(run: Run, *output: Json, message: str) -> None:
    """Append parts as an utterance."""
    content = {"messageId": message, "role": "ROLE_AGENT", "parts": list(output)}
    await run.append([events.status_update(run.key.task, run.context, WORKING, content)])


async def show(run: Run, artifact: str, *shown: Json, append: bool = False) -> None:
    """Append parts as an artifact's chunk."""
    body = {"artifactId": artifact, "parts": list(shown)}
    update = events.artifact_update(run.key.task, run.context, body, append=append)
    await run.append([update])


async def assistant(run: Run) -> None:
    """Think, call a tool, answer, hand over a file."""
    await say(run, parts.thinking_part("Hm. ", "think-1", end=True), message="m-1")
    await say(run, parts.tool_call_part("count", {"of": "words"}, "call-1"), message="m-2")
    await say(run, parts.tool_result_part("call-1", {"words": 2}), message="m-3")
    await show(run, "block-1", parts.text_part("Two ", "block-1"))
    await show(run, "block-1", parts.text_part("words.", "block-1", end=True), append=True)
    await show(run, "file-1", parts.file_part(b"abc", "a.txt", "text/plain"))
    await run.status(COMPLETED)


async def ending(run: Run) -> None:
    """End as the message says."""
    ends = {"reject": REJECTED, "fail": FAILED, "ask": INPUT_REQUIRED}
    await run.status(ends[text_of(run.message["parts"])], "because")


async def patient(run: Run) -> None:
    """Begin to answer, wait for the test, go on."""
    block = f"{run.key.task}-{run.run}"
    await show(run, block, parts.text_part("a", block))
    await run.go_on.wait()
    await show(run, block, parts.text_part("b", block), append=True)
    await run.status(COMPLETED)


async def retried(run: Run) -> None:
    """Begin to answer, die, and do it again."""
    await show(run, "block-1", parts.text_part("lost", "block-1"))
    await run.go_on.wait()
    again: Json = {events.ATTEMPT: 2, events.WORKER: "w", events.DISCARDED_AFTER: run.run}
    await run.append([run.status_draft(WORKING, metadata=again)])
    await show(run, "block-1", parts.text_part("found", "block-1"))
    await run.status(COMPLETED)


async def large(run: Run) -> None:
    """Say more than a gateway keeps of a task."""
    text = base64.b64encode(bytes(range(256)) * 200).decode()
    for number in range(40):
        await show(run, f"block-{number}", parts.text_part(text, f"block-{number}"))
    await run.status(COMPLETED)


async def painter(run: Run) -> None:
    """Call the user interface's tool and wait for it; then say what it answered."""
    results = [parts.tool_result(part) for part in run.message["parts"]]
    if any(results):
        block = f"{run.key.task}-{run.run}"
        output = ", ".join(result.content for result in results if result)
        await show(run, block, parts.text_part(output, block))
        await run.status(COMPLETED)
        return
    call = f"call-{run.key.task}"
    await say(run, parts.tool_call_part("paint", {"colour": "red"}, call), message=f"m-{call}")
    pending = {PENDING_TOOL_CALLS: [call]}
    await run.append([run.status_draft(INPUT_REQUIRED, metadata=pending)], INPUT_REQUIRED)


async def numbering(run: Run) -> None:
    """Give each call the id call_1 and each block of text the id b, as some models do."""
    for number in (1, 2):
        call = parts.tool_call_part("look", {"n": number}, "call_1")
        await say(run, call, message=f"m-{number}")
        await say(run, parts.tool_result_part("call_1", f"{number}"), message=f"r-{number}")
    await show(run, "b", parts.text_part(f"To {parts.text_of(run.message['parts'])}", "b"))
    await run.status(COMPLETED)


async def page(run: Run) -> None:
    """Call the page's tool, always by the id call_1; then tell the id and content of the result."""
    results = [parts.tool_result(part) for part in run.message["parts"]]
    if found := [result for result in results if result]:
        text = ", ".join(f"{result.id}: {result.content}" for result in found)
        await show(run, "b", parts.text_part(text, "b"))
        await run.status(COMPLETED)
        return
    await say(run, parts.tool_call_part("paint", {"colour": "red"}, "call_1"), message="m")
    pending = {PENDING_TOOL_CALLS: ["call_1"]}
    await run.append([run.status_draft(INPUT_REQUIRED, metadata=pending)], INPUT_REQUIRED)


async def planning(run: Run) -> None:
    """Call the page's tool twice by one id and ask for approval of another call, all at once."""
    if run.run > 1:
        results = [parts.tool_result(part) for part in run.message["parts"]]
        told = [f"{result.id}: {result.content}" for result in results if result]
        told += [
            f"{parts.interrupt_id(p)}: {p['text']}" for p in run.message["parts"] if "text" in p
        ]
        await show(run, "b", parts.text_part(", ".join(told), "b"))
        await run.status(COMPLETED)
        return
    for colour in ("red", "blue"):
        await say(run, parts.tool_call_part("paint", {"colour": colour}, "call_1"), message="m")
    await say(run, parts.tool_call_part("delete", {}, "call_2"), message="m")
    question = {"id": "call_2", "reason": "tool_call", "toolCallId": "call_2"}
    metadata = {PENDING_TOOL_CALLS: ["call_1", "call_1"], INTERRUPTS: [question]}
    await run.append([run.status_draft(INPUT_REQUIRED, metadata=metadata)], INPUT_REQUIRED)


async def approving(run: Run) -> None:
    """Ask for approval of call_1, and emit its result in the next run."""
    if run.run > 1:
        await say(run, parts.tool_result_part("call_1", "deleted"), message="r")
        answer = run.message["parts"][0]
        told = f"{parts.interrupt_id(answer)}: {answer.get('text')}"
        await show(run, "b", parts.text_part(told, "b"))
        await run.status(COMPLETED)
        return
    await say(run, parts.tool_call_part("delete", {}, "call_1"), message="m")
    question = {"id": "call_1", "reason": "tool_call", "toolCallId": "call_1"}
    metadata = {INTERRUPTS: [question]}
    await run.append([run.status_draft(INPUT_REQUIRED, metadata=metadata)], INPUT_REQUIRED)


AGENTS: dict[str, tuple[AgentCard, Script]] = {
    "assistant": (AgentCard(name="assistant", input_modes=["*/*"]), assistant),
    "ending": (AgentCard(name="ending"), ending),
    "patient": (AgentCard(name="patient"), patient),
    "refusing": (AgentCard(name="refusing", follow_ups="reject"), patient),
    "yielding": (AgentCard(name="yielding", follow_ups="interrupt"), patient),
    "retried": (AgentCard(name="retried"), retried),
    "painter": (AgentCard(name="painter"), painter),
    "large": (AgentCard(name="large"), large),
    "numbering": (AgentCard(name="numbering"), numbering),
    "page": (AgentCard(name="page"), page),
    "planning": (AgentCard(name="planning"), planning),
    "approving": (AgentCard(name="approving"), approving),
}
