"""The worker on a real nats-server; `TaskSubmitter` takes the place of the gateway."""
