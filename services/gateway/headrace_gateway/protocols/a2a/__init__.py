"""A2A v1.0 in and out: JSON-RPC and REST over the same operations, and the cards."""
