"""Agents of the official A2A SDK, and external A2A agents."""
