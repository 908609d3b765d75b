import logging

import pytest
from ag_ui.core import AgentCapabilities

from headrace import Card, RunContext, agent
from headrace.directory import AgentCard
from headrace.model.agent_card import Provider
from headrace.sdk.card import CATEGORIES
from headrace.sdk.errors import Misdeclared
from headrace_dojo import agents
from headrace_gateway.protocols.agui.capabilities import capabilities


def test_every_demo_agents_are_of_the_protocols_shape() -> None:
    assert len(agents) > 10
    for one in agents:
        declared = capabilities(one.card)
        parsed = AgentCapabilities.model_validate(declared)
        assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == declared
        assert declared.keys() >= one.card.capabilities.keys()


def test_an_agent_that_declares_none_shows_only_its_names_and_modes() -> None:
    @agent()
    async def plain(ctx: RunContext) -> None:
        """Think."""

    assert capabilities(plain.card).keys() == {"identity", "transport", "output", "multimodal"}


def test_what_is_declared_wins_within_its_category() -> None:
    card = AgentCard(name="a", version="2", capabilities={"identity": {"version": "3"}})
    assert capabilities(card)["identity"] == {
        "name": "a",
        "description": "",
        "version": "3",
        "type": "headrace",
        "metadata": {"id": "a"},
    }


def test_an_agents_names_for_people_are_its_identity() -> None:
    card = AgentCard(
        name="a",
        display_name="An Agent",
        icon_url="https://a.example/icon.png",
        documentation_url="https://a.example/docs",
        provider=Provider(organization="Acme", url="https://acme.example"),
    )
    declared = capabilities(card)["identity"]
    assert (declared["name"], declared["provider"]) == ("An Agent", "Acme")
    assert declared["documentationUrl"] == "https://a.example/docs"
    assert declared["metadata"] == {"id": "a", "iconUrl": "https://a.example/icon.png"}


def test_input_modes_state_what_is_accepted() -> None:
    card = AgentCard(name="a", input_modes=["text/plain", "image/png", "application/pdf"])
    taken = capabilities(card)["multimodal"]["input"]
    assert taken == {"image": True, "audio": False, "video": False, "pdf": True, "file": False}


@pytest.mark.parametrize("declared", [{"state": {"snapshots": "often"}}, {"state": 3}])
def test_a_category_that_is_not_as_it_should_be_is_left_out(
    declared: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        shown = capabilities(AgentCard(name="a", capabilities=declared))
    assert "state" not in shown
    assert "skipping state" in caplog.text


def test_an_agent_may_declare_what_the_protocol_has_and_nothing_else() -> None:
    assert set(AgentCapabilities.model_json_schema(by_alias=True)["properties"]) == CATEGORIES

    @agent(card=Card(capabilities={"reasoning": {"supported": True}}))
    async def thinker(ctx: RunContext) -> None:
        """Think."""

    assert capabilities(thinker.card)["reasoning"] == {"supported": True}
    with pytest.raises(Misdeclared, match="telepathy"):
        agent(card=Card(capabilities={"telepathy": {}}))(thinker.function)
