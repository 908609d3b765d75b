"""One agent of each adapter that asks, for a stack that is stopped and started again."""

import json
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from headrace import Agent, Agents
from headrace.adapters import ag_ui_agent, remote_agent
from tests.integration.worker.adapters.office import Office
from tests.support.examples import example


def _made(name: str, url: str) -> Agent:
    office = Office(Path(os.environ["OFFICES"]) / name)
    made: Agent = import_module(f"tests.integration.worker.adapters.{name}").build(url, office)
    return replace(made, card=made.card.model_copy(update={"name": name}))


agents = Agents(
    [
        *(_made(*one) for one in json.loads(os.environ["MODELS"]).items()),
        example("executor").translator,
        ag_ui_agent(os.environ["AG_UI"], name="backend"),
        remote_agent(os.environ["REMOTE"], name="outside"),
    ]
)
