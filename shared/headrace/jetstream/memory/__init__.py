"""The parts of NATS and JetStream that a fleet uses, in memory, for tests of agents."""
