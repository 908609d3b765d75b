"""Delegation to other agents: child tasks are started, followed, relayed and canceled."""
