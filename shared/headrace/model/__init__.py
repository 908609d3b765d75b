"""The vocabulary: tasks, events, entries and messages as data. Nothing here knows NATS."""
