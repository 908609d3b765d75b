"""The gateway as a part of another application: `asgi`.

The only module of the library that imports a service. It imports it in the call, so that agents,
clients and services that import `headrace` load no HTTP.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_gateway.embedded import EmbeddedGateway
    from headrace_gateway.settings import GatewaySettings


def asgi(settings: "GatewaySettings | None" = None) -> "EmbeddedGateway":
    """Return a gateway to mount in a Starlette or FastAPI application.

    It is an ASGI application with a `lifespan`, which the outer application enters:

        gateway = headrace.asgi()
        app = FastAPI(lifespan=gateway.lifespan)
        app.mount("/agents", gateway)

    Args:
        settings: By default, those that ``HEADRACE_*`` variables name.

    Raises:
        ImportError: A library of the gateway is not installed; the message names the extra.
        Unprotected: Neither credentials nor anonymous callers are configured.
    """
    try:
        from headrace_gateway.embedded import EmbeddedGateway  # noqa: PLC0415 - an extra
        from headrace_gateway.settings import GatewaySettings  # noqa: PLC0415 - as above
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("headrace"):
            raise  # A broken installation, not a missing extra.
        library = (missing.name or "").partition(".")[0]
        raise ImportError(
            f"{library} is not installed: pip install 'headrace[gateway]'"
        ) from missing
    return EmbeddedGateway(settings or GatewaySettings())
