"""The worker on a real nats-server; a desk plays the gateway."""
