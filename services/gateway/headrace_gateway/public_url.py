"""The URL under which a client reaches the fleet."""

from starlette.requests import Request

from headrace_gateway.settings import GatewaySettings


def public_url(request: Request, settings: GatewaySettings) -> str:
    """Return scheme, host and perhaps a path, without a slash at the end.

    Without HEADRACE_PUBLIC_URL it is what the request was sent to: a client that came this way
    can come this way again.
    """
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = request.headers.get("host") or f"{settings.http_host}:{settings.http_port}"
    return f"{request.url.scheme}://{host}"
