"""The OpenAPI document of everything that a gateway serves over HTTP, and its page."""

DOCUMENT, PAGE = "/openapi.json", "/docs"
"""Their paths."""
