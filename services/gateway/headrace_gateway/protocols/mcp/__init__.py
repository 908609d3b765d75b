"""MCP: every agent is a tool, for callers whose roles permit it."""
