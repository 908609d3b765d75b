"""The data model: tasks, events, entries and messages. It does not depend on NATS."""
