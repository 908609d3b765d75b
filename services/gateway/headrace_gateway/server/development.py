"""Whether a gateway is part of a development stack (`headrace dev`)."""

from headrace_gateway.server.origin import is_loopback
from headrace_gateway.settings import GatewaySettings


def is_development(settings: GatewaySettings) -> bool:
    """Return whether the gateway serves what exists in development only."""
    return settings.dev_control is not None and is_loopback(settings.http_host)
