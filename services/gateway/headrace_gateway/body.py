"""Reading a request's body, never more of it than the limit."""

from starlette.requests import Request

from headrace.errors import HeadraceError


class BodyTooLarge(HeadraceError):
    """The body exceeds the limit."""

    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        """Keep the limit, in bytes."""
        super().__init__(f"the body exceeds the limit of {limit} bytes")
        self.limit = limit


async def read_body(request: Request, limit: int) -> bytes:
    """Return the request's body.

    Raises:
        BodyTooLarge: it says so, or turns out to be, larger than `limit` bytes.
        starlette.requests.ClientDisconnect: the client went away meanwhile.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise BodyTooLarge(limit)
    pieces, size = list[bytes](), 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(limit)
        pieces.append(piece)
    return b"".join(pieces)
