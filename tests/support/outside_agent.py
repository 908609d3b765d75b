"""An outside agent for workers in other processes; its URL is in ``HEADRACE_OUTSIDE_URL``."""

import os

from headrace.adapters import remote_agent

outside = remote_agent(
    os.environ["HEADRACE_OUTSIDE_URL"],
    name="outside",
    binding=os.environ.get("HEADRACE_OUTSIDE_BINDING", "JSONRPC"),
)
