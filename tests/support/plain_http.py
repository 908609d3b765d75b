"""HTTP clients without TLS."""

import ssl

import httpx

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, for `httpx`' parameter `verify`: loading whom it trusts otherwise takes 37 ms of
processor time, for each client."""

KEEP_ALL = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
"""For `httpx`' parameter `limits`: the client closes no connection of its own accord.

Of several connections that expire at the same time, after 5 s by default, httpcore may close one
that it has just given to another request, which fails with `ReadError` whatever the server does.
"""
