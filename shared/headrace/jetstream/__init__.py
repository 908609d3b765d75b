"""NATS and JetStream: their API, headers, buckets and error numbers are used only here."""
