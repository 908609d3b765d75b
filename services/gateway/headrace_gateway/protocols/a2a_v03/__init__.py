"""A2A 0.3 for older clients, through the conversions of the official SDK."""
