"""The gateway: client protocols in, feeds and dialects out."""
