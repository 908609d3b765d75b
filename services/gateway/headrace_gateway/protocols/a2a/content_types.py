"""What a request's body may be declared as."""

from a2a.utils.errors import ContentTypeNotSupportedError
from starlette.requests import Request

FORM = "application/x-www-form-urlencoded"
"""What curl says of a body when it is not told: JSON, all the same, where it is sent to a route."""


def check_content_type(request: Request, *, form: bool = False) -> None:
    """Return if the body is declared as JSON of some kind, or not at all.

    With `form` it may also be declared as a form, as those do who leave it to curl. Not by pages:
    a browser sends a form anywhere without asking, and always says of which page it is.

    Raises:
        ContentTypeNotSupportedError: it is declared as something else.
    """
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind, _, subtype = stated.partition("/")
    is_json = kind == "application" and (subtype.startswith("json") or subtype.endswith("+json"))
    is_curls = form and stated == FORM and "origin" not in request.headers
    if stated and not is_json and not is_curls:
        raise ContentTypeNotSupportedError(
            f"the body must be application/json or application/a2a+json, not {stated[:100]}"
        )
