"""HTTP clients without TLS."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, for `httpx`' parameter `verify`: loading whom it trusts otherwise takes 37 ms of
processor time, for each client."""
