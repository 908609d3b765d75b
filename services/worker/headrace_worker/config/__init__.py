"""Agents declared in a file, ``headrace.yaml``, without code."""

from headrace_worker.config.build import DeclaredAgents, build, declared_in
from headrace_worker.config.errors import Unusable
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
