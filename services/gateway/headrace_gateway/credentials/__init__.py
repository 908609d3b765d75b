"""Credentials: from what a request carries to who sent it."""
