"""What is checked beside the run itself: how the endpoint refuses, and what it can do."""

import json
from collections.abc import Iterator
from http import HTTPStatus

from headrace_cli.agui.finding import Finding, kept_if
from headrace_cli.agui.wire import Endpoint

_CATEGORIES = frozenset(
    [
        "identity",
        "transport",
        "tools",
        "output",
        "state",
        "multiAgent",
        "reasoning",
        "multimodal",
        "execution",
        "humanInTheLoop",
        "custom",
    ]
)


def probed(endpoint: Endpoint) -> Iterator[Finding]:
    """Check what the endpoint answers to a body that is no RunAgentInput, and its capabilities.

    Raises:
        RequestFailed: nobody answers.
    """
    with endpoint.post({"messages": "none"}) as answer:
        status = answer.status
        is_refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        yield kept_if(is_refused, "http.refusal", f"it is answered with {status}")
    status, body = endpoint.get("/capabilities")
    if status == HTTPStatus.OK:
        yield _capabilities(body)


def _capabilities(body: bytes) -> Finding:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return kept_if(None, "http.capabilities", "they are no JSON object")
    unknown = sorted(told.keys() - _CATEGORIES)
    return kept_if(not unknown, "http.capabilities", f"unknown: {', '.join(unknown)}")
