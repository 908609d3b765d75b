"""A release: its version, all that it has, and a rehearsal of it."""
