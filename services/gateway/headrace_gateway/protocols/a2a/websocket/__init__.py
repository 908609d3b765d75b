"""The WebSocket binding: any number of tasks over one connection."""
