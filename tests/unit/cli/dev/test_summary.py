"""What `headrace dev` prints once it is ready."""

from typing import Any

import pytest

from headrace_cli.dev.stack import summary
from tests.support.fake_gateway import ScriptedResponse, answering

CARD = "/v1/agents/{}/.well-known/agent-card.json"


def agents(**defaults: bool) -> ScriptedResponse:
    listed = [{"id": name, "default": is_default} for name, is_default in defaults.items()]
    return ScriptedResponse(body={"agents": listed})


def card(*skills: dict[str, Any]) -> ScriptedResponse:
    return ScriptedResponse(body={"skills": list(skills)})


async def test_the_default_agent_comes_first_with_an_example_of_its_card() -> None:
    skills = card({"id": "a"}, {"id": "b", "examples": ["two nails", "one"]})
    script = {"/v1/agents": agents(clerk=False, shop=True), CARD.format("shop"): skills}
    with answering(**script) as gateway:
        assert await summary(gateway.url) == [
            f"  shop  {gateway.url}/v1/agents/shop/ (default)",
            f"  clerk {gateway.url}/v1/agents/clerk/",
            f"try: headrace send --url {gateway.url} 'two nails'",
        ]


async def test_without_a_default_agent_the_command_names_one() -> None:
    script = {"/v1/agents": agents(clerk=False), CARD.format("clerk"): card()}
    with answering(**script) as gateway:
        [*_, command] = await summary(gateway.url)
        assert command == f"try: headrace send --agent clerk --url {gateway.url} Hello"


@pytest.mark.parametrize("listed", [ScriptedResponse(401), agents()])
async def test_nothing_is_reported_of_agents_that_are_not_listed(listed: ScriptedResponse) -> None:
    with answering(**{"/v1/agents": listed}) as gateway:
        assert await summary(gateway.url) == []
