"""The OpenAI Agents SDK's session and pydantic-ai's history, in the fleet's memory."""

import pytest

from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun


@pytest.fixture
def ctx() -> RunContext:
    return DirectRun("any", "hi").context


def item(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_a_session_returns_the_latest_items_up_to_a_limit(ctx: RunContext) -> None:
    from agents.memory import Session

    from headrace.adapters import fleet_session

    session = fleet_session(ctx)
    limited = fleet_session(ctx, session_settings={"limit": 2})
    assert isinstance(session, Session)
    await session.add_items([item("1"), item("2")])
    await session.add_items([item("3")])
    assert await session.get_items() == [item("1"), item("2"), item("3")]
    assert await limited.get_items() == await session.get_items(2) == [item("2"), item("3")]
    assert await limited.get_items(9) == await session.get_items()
    assert await session.get_items(0) == []
    assert await session.pop_item() == item("3")
    await session.clear_session()
    assert (await session.pop_item(), await session.get_items()) == (None, [])


async def test_sessions_of_other_names_are_others(ctx: RunContext) -> None:
    from headrace.adapters import fleet_session

    session, other = fleet_session(ctx), fleet_session(ctx, "planner")
    await session.add_items([item("1")])
    await other.add_items([item("2")])
    await other.clear_session()
    assert await session.get_items() == [item("1")]
    assert (session.session_id, other.session_id) == (ctx.context, f"{ctx.context}/planner")


@pytest.mark.parametrize("name", ["/", "planner", "planner/1", "%2F"])
async def test_a_sessions_name_is_any_text(ctx: RunContext, name: str) -> None:
    from headrace.adapters import fleet_session

    others = [fleet_session(ctx, each) for each in ("", "planner/", "a")]
    await fleet_session(ctx, name).add_items([item("1")])
    assert await fleet_session(ctx, name).get_items() == [item("1")]
    assert [await other.get_items() for other in others] == [[], [], []]


async def test_a_history_has_the_messages_as_they_were(ctx: RunContext) -> None:
    from pydantic_ai import Agent, BinaryContent
    from pydantic_ai.models.test import TestModel

    from headrace.adapters import fleet_history

    history, agent = fleet_history(ctx), Agent(TestModel())
    first = await agent.run(["Look.", BinaryContent(b"\x89PNG", media_type="image/png")])
    await history.add(first.new_messages())
    second = await agent.run("And?", message_history=await history.messages())
    await history.add(second.new_messages())
    assert await history.messages() == second.all_messages()
    await history.clear()
    assert await history.messages() == []
