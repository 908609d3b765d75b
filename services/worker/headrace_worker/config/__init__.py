"""Agents declared in a file, ``headrace.yaml``, without code."""

from headrace_worker.config.build import build
from headrace_worker.config.declared_agents import DeclaredAgents, declared_in
from headrace_worker.config.lines import Unusable
from headrace_worker.config.model import Configuration, schema
from headrace_worker.config.read import read

__all__ = [
    "Configuration",
    "DeclaredAgents",
    "Unusable",
    "build",
    "declared_in",
    "read",
    "schema",
]
