"""An outside agent for workers of processes of their own: ``HEADRACE_OUTSIDE_URL`` says where."""

import os

from headrace_worker.adapters import remote_agent

outside = remote_agent(
    os.environ["HEADRACE_OUTSIDE_URL"],
    name="outside",
    binding=os.environ.get("HEADRACE_OUTSIDE_BINDING", "JSONRPC"),
)
