"""The servers: ports, connections, limits, and who calls."""
