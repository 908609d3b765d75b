"""Asking other agents: children started, followed, relayed, and never left without a parent."""
