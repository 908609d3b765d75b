"""NATS with JetStream in this process's memory, as far as a fleet uses it; for tests of agents."""
