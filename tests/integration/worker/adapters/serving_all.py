"""One agent of each adapter that asks, and the examples, for a stack whose processes are killed."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

from headrace import Agent, Agents
from headrace.adapters import ag_ui_agent, remote_agent
from headrace.clock import TaskClock
from tests.integration.worker.adapters.approval_examples import EXAMPLES, Ledger
from tests.integration.worker.adapters.office import Office
from tests.support.examples import example

MODELS = json.loads(os.environ["MODELS"])
OFFICES = Path(os.environ["OFFICES"])


def _made(name: str, url: str) -> Agent:
    office = Office(OFFICES / name)
    made: Agent = import_module(f"tests.integration.worker.adapters.{name}").build(url, office)
    return replace(made, card=made.card.model_copy(update={"name": name}))


def _set_clock(ahead: timedelta) -> None:
    """Set the clock that tasks, agents and their frameworks see in this process."""
    right = time.time
    time.time = lambda: right() + ahead.total_seconds()
    TaskClock.now = lambda self: datetime.now(UTC) + ahead  # type: ignore[method-assign]  # noqa: ARG005


if Path("a-day").exists():
    _set_clock(timedelta(days=1, minutes=1))

agents = Agents(
    [
        *(_made(*one) for one in MODELS.items()),
        *(made(MODELS[model], Ledger(OFFICES)) for model, made in EXAMPLES.values()),
        example("executor").translator,
        ag_ui_agent(os.environ["AG_UI"], name="backend"),
        remote_agent(os.environ["REMOTE"], name="outside"),
    ]
)
