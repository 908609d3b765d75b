"""Queries of gateways and workers, answered from the projection and the log."""
