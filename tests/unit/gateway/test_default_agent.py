"""Which agent answers at the root."""

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.model.agent_card import AgentCard
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings


def default_among(agents: list[str], **settings: str) -> str:
    cards = [AgentCard(name=name) for name in agents]
    directory = SimpleNamespace(cards=lambda: cards)
    parts = SimpleNamespace(settings=GatewaySettings.model_validate(settings), directory=directory)
    getter = cast("property", vars(Services)["default_agent"]).fget
    assert getter is not None
    return str(getter(parts))


@pytest.mark.parametrize(
    ("agents", "default"),
    [
        (["assistant", "echo"], "assistant"),
        (["hello"], "hello"),
        (["hello", "world"], "assistant"),
        ([], "assistant"),
    ],
)
def test_an_only_agent_answers_at_the_root_unless_another_is_named(
    agents: list[str], default: str
) -> None:
    assert default_among(agents) == default
    assert default_among(agents, default_agent="chosen") == "chosen"


def test_without_an_answer_the_client_gets_the_remedy() -> None:
    hint = str(AgentUnknown.called("assistant", at_root=True))
    assert "HEADRACE_DEFAULT_AGENT" in hint
    assert "/v1/agents" in hint
    assert "HEADRACE_DEFAULT_AGENT" not in str(AgentUnknown.called("x", at_root=False))
