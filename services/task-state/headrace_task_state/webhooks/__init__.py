"""Telling webhooks what happens in their tasks: durably, in order, and only where it may go."""
