"""A2A 1.0: JSON-RPC, REST, gRPC and WebSocket bindings of the same operations, and cards."""
