"""A gateway in this process, on a real nats-server, with a fleet that does what a test scripts."""
