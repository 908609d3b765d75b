"""A2A's gRPC binding: the same operations as over JSON, on a separate port."""
