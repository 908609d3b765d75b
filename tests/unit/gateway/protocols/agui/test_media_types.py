import pytest
from starlette.requests import Request

from headrace_gateway.json_errors import BodyNotJson, check_body_type
from headrace_gateway.protocols.agui.encodings import BINARY, PROTO, SSE, encoding_for
from headrace_gateway.protocols.agui.errors import NotAcceptable


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    "accept",
    [
        "text/event-stream",
        "*/*",
        "text/*;q=0.1",
        "application/json, text/event-stream",
        "Text/Event-Stream; charset=utf-8",
        "",
    ],
)
def test_clients_that_take_server_sent_events_get_them(accept: str) -> None:
    assert encoding_for(request(accept=accept)) is SSE


@pytest.mark.parametrize("accept", [BINARY, f"text/event-stream, {BINARY.upper()}"])
def test_clients_that_take_the_binary_form_get_it(accept: str) -> None:
    encoding = encoding_for(request(accept=accept))
    assert encoding is PROTO
    assert encoding.body.headers["content-type"] == BINARY


def test_a_client_that_states_no_media_type_gets_server_sent_events() -> None:
    assert encoding_for(request()) is SSE


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        f"{BINARY};q=0",
        "text/html, image/*",
        "text/event-stream;q=0",
        "*/*; q=0.000",
    ],
)
def test_clients_that_take_something_else_are_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        encoding_for(request(accept=accept))


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/JSON; charset=utf-8", "application/x+json"]
)
def test_json_bodies_are_taken(media_type: str) -> None:
    check_body_type(request(content_type=media_type))


def test_a_body_of_no_stated_type_is_taken() -> None:
    check_body_type(request())


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_foreign_page_can_post_is_refused(media_type: str) -> None:
    with pytest.raises(BodyNotJson):
        check_body_type(request(content_type=media_type))
