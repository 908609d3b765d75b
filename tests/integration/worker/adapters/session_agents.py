"""Examples with a framework's session in the fleet, for workers in other processes (`serving`)."""

import os
from typing import Any

from headrace import Agent
from tests.integration.worker.adapters.office import Office
from tests.support.examples import example


def build(url: str, office: Office) -> Agent:
    """Make the agent of the example that the environment names."""
    del office
    return notes(os.environ["HEADRACE_EXAMPLE"], url)


def notes(name: str, url: str) -> Agent:
    """Make the agent of an example, with the model at `url`."""
    if name != "adk_session":
        made: Agent = example(name, URL=url).notes
        return made
    from tests.integration.worker.adapters.test_google_adk import gemini

    module: Any = example(name)
    module.clerk.model = gemini(url)
    adk: Agent = module.notes
    return adk
