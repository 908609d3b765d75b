"""Agents that delegate: one plans a topic, up to three research it, and one writes the report.

One stream shows everything: each child task appears as a subagent run, and is a task of its own.
"""

import asyncio
from collections.abc import AsyncIterator

from headrace import (
    Card,
    Data,
    Emission,
    Limits,
    RunContext,
    Skill,
    Status,
    Step,
    Thinking,
    ToolResult,
    agent,
)
from headrace_dojo.pacing import paced

ANGLES = ("history", "practice", "open questions")
_FINDINGS = {
    "history": "It was first tried by hand, then by rote, and only then on purpose.",
    "practice": "Most do it daily, few write it down, and those who do are asked about it.",
    "open questions": "Nobody has measured what it costs not to do it.",
}


@agent(description="Splits a topic into questions that can be looked into one by one.")
async def planner(ctx: RunContext) -> AsyncIterator[Emission]:
    """Emit reasoning, then three questions."""
    yield Thinking(f"What would somebody want to know of {ctx.prompt}? ", title="Planning")
    yield Thinking("Where it comes from, how it is done, what is left.", end=True)
    yield Data([f"{ctx.prompt}: {angle}" for angle in ANGLES], "questions")


@agent(description="Looks into one question.", limits=Limits(concurrency=1))
async def researcher(ctx: RunContext) -> AsyncIterator[Emission]:
    """Search, then report the result."""
    topic, _, angle = ctx.prompt.rpartition(": ")
    call = await ctx.tool_call("search", {"query": ctx.prompt})
    await asyncio.sleep(0.1)
    await ctx.emit(ToolResult(call, {"documents": 3}))
    async for word in paced(f"{angle} of {topic}: {_FINDINGS.get(angle, 'Nothing is known.')}"):
        yield word


@agent(description="Makes one text of several findings.")
async def writer(ctx: RunContext) -> AsyncIterator[Emission]:
    """Put the findings under one heading."""
    topic, *findings = ctx.prompt.splitlines()
    async for word in paced(f"# {topic}\n\n" + "\n".join(f"* {each}" for each in findings)):
        yield word


@agent(
    description="Researches a topic with a planner, three researchers at a time and a writer.",
    card=Card(
        skills=[Skill("research", "Research", "Asks other agents.", ["demo"], ["watermills"])]
    ),
)
async def research(ctx: RunContext) -> AsyncIterator[Emission]:
    """Delegate to the planner, three researchers in parallel, and the writer."""
    yield Step("plan")
    plan = await ctx.delegate("planner", ctx.prompt)
    questions = next(part["data"] for part in plan.parts if "data" in part)
    yield Step("plan", finished=True)
    yield Status(f"looking into {len(questions)} questions")
    found = await asyncio.gather(*(ctx.delegate("researcher", each) for each in questions))
    report = "\n".join([ctx.prompt, *(result.text for result in found)])
    async with ctx.delegate_stream("writer", report, relay=False) as writing:
        async for event in writing:
            for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", ()):
                yield part["text"]
