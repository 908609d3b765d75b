"""An adapter's agent in a worker process of its own, for tests that kill it."""

import os
from importlib import import_module
from pathlib import Path

from headrace import Agents
from tests.integration.worker.adapters.office import Office

_adapter = import_module(os.environ["HEADRACE_ADAPTER"])
agents = Agents(
    [_adapter.build(os.environ["HEADRACE_MODEL"], Office(Path(os.environ["HEADRACE_OFFICE"])))]
)
