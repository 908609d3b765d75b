"""A2A v0.3 for old clients: its requests and answers, through the official SDK's conversions."""
