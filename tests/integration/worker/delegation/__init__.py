"""Agents that ask agents, on real servers."""
