"""Streams: one loop that follows a feed, and the transports that write its rendered messages."""
