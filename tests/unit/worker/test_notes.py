"""What a worker's log says of its agents at the start."""

from dataclasses import replace

import pytest

from headrace import Agents, RunContext, agent
from headrace.model.agent_card import Caution
from headrace_worker.worker import warn_of


@agent()
async def desk(_: RunContext) -> str:
    """Answer."""
    return "Hello."


def test_notes_are_information_and_cautions_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    card = desk.card.model_copy(update={"cautions": [Caution(text="it forgets", remedy="mind it")]})
    warn_of(Agents([replace(desk, card=card, notes=("its state is in the fleet",))]))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "agent desk: it forgets (mind it)"),
        ("INFO", "agent desk: its state is in the fleet"),
    ]
