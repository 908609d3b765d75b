"""Agents of Google's ADK."""
