"""Headrace beside the official SDK's in-process server: one run, one client, the same cores."""
