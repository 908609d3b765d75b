"""One agent of each adapter, for a stack that is stopped and started again."""

import json
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from headrace import Agent, Agents
from tests.integration.worker.adapters.office import Office


def _made(name: str, url: str) -> Agent:
    office = Office(Path(os.environ["OFFICES"]) / name)
    made: Agent = import_module(f"tests.integration.worker.adapters.{name}").build(url, office)
    return replace(made, card=made.card.model_copy(update={"name": name}))


agents = Agents([_made(*one) for one in json.loads(os.environ["MODELS"]).items()])
