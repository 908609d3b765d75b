"""Tests of what the services share, without a server."""
