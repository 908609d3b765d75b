"""Hector's surface: older shapes of A2A, and sixteen AG-UI events folded from a task's log.

Clients ask for them on A2A's routes, where they are a variant, and on two routes of Hector's own.
The events are older than AG-UI's protocol and are not it.
"""
