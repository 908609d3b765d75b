"""The AG-UI protocol: run inputs become tasks, task logs become event streams."""
