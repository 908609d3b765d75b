"""Agents of pydantic-ai."""
