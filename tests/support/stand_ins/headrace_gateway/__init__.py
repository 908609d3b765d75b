"""Stub of the service of this name."""
