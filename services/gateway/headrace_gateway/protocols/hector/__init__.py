"""Hector's API: older shapes of A2A, and sixteen AG-UI events folded from a task's log.

Clients request them on A2A's routes, and on two routes of Hector's own. The events predate the
AG-UI protocol and differ from it.
"""
