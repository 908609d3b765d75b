"""Webhook notifications: durable, in order, and only to allowed addresses."""
