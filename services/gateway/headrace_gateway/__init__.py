"""The gateway: client protocols in, feeds and renderers out."""
