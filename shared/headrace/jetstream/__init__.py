"""NATS and JetStream: the one place that knows their API, headers, buckets and error numbers."""
