"""The doors of a fleet, each driven by its own real client, with the same methods."""
