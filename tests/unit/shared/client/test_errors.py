"""A gateway's error responses as exceptions."""

import json

import pytest

from headrace.client import RequestRefused
from headrace.client.errors import ErrorResponse, read_error


def test_an_error_of_a2a_names_its_reason_and_field() -> None:
    details = [
        {"@type": "…ErrorInfo", "reason": "INVALID_PARAMS", "metadata": {"task": "t1"}},
        {"@type": "…BadRequest", "fieldViolations": [{"field": "message.parts"}]},
    ]
    error = {"code": 400, "message": "message.parts: is empty", "details": details}
    found = read_error(400, "Bad Request", json.dumps({"error": error}).encode())
    assert found == ErrorResponse(
        400, "message.parts: is empty", "INVALID_PARAMS", "message.parts", {"task": "t1"}
    )


def test_an_error_of_ag_ui_has_a_code() -> None:
    body = b'{"error": {"code": "run_unknown", "message": "no such run"}}'
    refused = RequestRefused(read_error(404, "Not Found", body))
    assert (str(refused), refused.status, refused.reason) == ("no such run", 404, "run_unknown")


@pytest.mark.parametrize(
    "odd",
    [
        {"details": 5},
        {"details": [{"fieldViolations": ["x"]}]},
        {"details": [{"reason": 1, "metadata": "x"}]},
    ],
)
def test_an_error_of_a_proxy_may_have_any_details(odd: dict[str, object]) -> None:
    body = json.dumps({"message": "no", "code": 7, **odd}).encode()
    found = read_error(403, "Forbidden", body)
    assert (found.message, found.field, found.metadata) == ("no", "", {})


def test_an_error_of_a_proxy_is_its_status() -> None:
    found = read_error(502, "Bad Gateway", b"<html>", "3")
    assert found == ErrorResponse(502, "502 Bad Gateway", retry_after=3.0)
