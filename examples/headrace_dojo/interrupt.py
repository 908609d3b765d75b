"""Interrupt: the run ends with a question, and the next one resumes the same task."""

from collections.abc import AsyncIterator
from typing import Any

from headrace import Card, Emission, InputRequired, RunContext, agent
from headrace.model import parts
from headrace.model.events import Json
from headrace_dojo.pacing import paced

_SCHEMA: Json = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
    "required": ["approved"],
}


@agent(
    name="interrupt",
    description="Asks before it acts.",
    card=Card(
        capabilities={"humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True}}
    ),
)
async def interrupt(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask for approval once, then follow the answer."""
    if ctx.run == 1:
        question = f"Shall I go ahead with: {ctx.prompt}?"
        approval = {"id": f"approval-{ctx.task}", "reason": "confirmation", "message": question}
        yield InputRequired(question, _SCHEMA, [{**approval, "responseSchema": _SCHEMA}])
        return
    async for word in paced(_answer(ctx.parts[0])):
        yield word


def _answer(part: Json) -> str:
    if parts.resume_status(part) == "cancelled":
        return "Never mind, then."
    return "Approved: it is done." if _approves(part) else "Not approved: nothing is done."


def _approves(part: Json) -> bool:
    """Return whether the user approves, with data as in the schema or with text."""
    answer: Any = part.get("data", part.get("text"))
    if isinstance(answer, dict):
        return answer.get("approved") is True
    return str(answer).strip().lower() in {"yes", "y", "ok", "okay", "true", "approved"}
