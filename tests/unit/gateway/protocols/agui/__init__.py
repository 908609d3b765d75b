"""AG-UI: the fold of a log, and the reading of run inputs."""
