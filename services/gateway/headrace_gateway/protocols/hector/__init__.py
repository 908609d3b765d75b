"""Hector's AG-UI dialect: sixteen events of its own, folded from a task's log.

Clients ask for it on A2A's streaming routes; it is older than AG-UI's own protocol and not it.
"""
