"""An outside agent for workers of processes of their own: ``HEADRACE_CRIER_URL`` says where."""

import os

from headrace_worker.adapters import remote_agent

crier = remote_agent(
    os.environ["HEADRACE_CRIER_URL"],
    name="crier",
    binding=os.environ.get("HEADRACE_CRIER_BINDING", "JSONRPC"),
)
