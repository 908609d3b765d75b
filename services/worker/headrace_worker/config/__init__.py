"""Agents from a file, ``headrace.yaml``: what each is, without a line of code."""

from headrace_worker.config.building import build
from headrace_worker.config.model import Configuration, schema
from headrace_worker.config.reading import Unusable, read

__all__ = ["Configuration", "Unusable", "build", "read", "schema"]
