"""Streams: one loop that follows a feed, and the transports that write what it renders."""
