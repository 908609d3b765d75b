"""Stands in for the service of this name."""
