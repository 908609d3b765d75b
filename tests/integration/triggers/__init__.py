"""Triggers on real servers."""
