import importlib
import pkgutil

import pytest
from a2a.types import a2a_pb2
from a2a.utils.errors import ContentTypeNotSupportedError
from starlette.datastructures import QueryParams

import headrace
import headrace_gateway
from headrace.directory import AgentCard
from headrace.jetstream.errors import Refused
from headrace.model.cursor import Cursor
from headrace.model.errors import HeadraceError, TaskUnknown
from headrace.model.events import Json
from headrace.settings import BusSettings
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.messages import with_history
from headrace_gateway.protocols.a2a.parameters import task_in
from headrace_gateway.protocols.a2a.protojson import from_query
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.terms import check_parts


@pytest.mark.parametrize("text", ["abcd:1", " 0a1b2c3d:17 ", "x" * 16 + ":999999999999999999"])
def test_a_cursor_is_read_back(text: str) -> None:
    cursor = Cursor.parse(text)
    assert str(cursor) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", "abcd", "abcd:", "abcd:0", "abcd:01", "ABCD:1", "abc:1", "abcd:1.0", "abcd:-1", ":1"],
)
def test_what_was_never_handed_out_is_no_cursor(text: str) -> None:
    assert Cursor.parse(text) is None


_OURS = {package.__name__ for package in (headrace, headrace_gateway)}
_AGENTS = ("headrace.sdk.", "headrace.adapters.")

TEXT, IMAGE = {"text": "a"}, {"url": "u", "mediaType": "image/png"}


@pytest.mark.parametrize(
    ("modes", "part", "takes"),
    [
        (["text/plain"], TEXT, True),
        (["text/plain"], {"text": "a", "mediaType": "Text/Plain; charset=utf-8"}, True),
        (["text/plain"], {"text": "a", "mediaType": "text/html"}, False),
        (["text/*"], {"text": "a", "mediaType": "text/html"}, True),
        (["text/plain"], IMAGE, False),
        (["text/plain", "image/*"], IMAGE, True),
        (["text"], TEXT, True),
        (["text"], IMAGE, False),
        (["text/plain"], {"data": None}, False),
        (["text/plain"], {"data": 1, "metadata": {"agui_interrupt_id": "i"}}, True),
        (["text/plain"], {"data": 1, "metadata": {"agui_event_type": "tool_call"}}, True),
        (["text/plain"], {"raw": "AA==", "metadata": {"agui_interrupt_id": "i"}}, False),
        (["application/json"], {"data": 1}, True),
        (["application/json"], TEXT, False),
        (["*/*"], {"raw": "AA=="}, True),
        ([], {"raw": "AA=="}, True),
    ],
)
def test_an_agent_accepts_what_its_modes_state(modes: list[str], part: Json, takes: bool) -> None:  # noqa: FBT001
    card = AgentCard(name="a", input_modes=modes)
    if takes:
        check_parts({"parts": [part]}, card)
        return
    with pytest.raises(ContentTypeNotSupportedError, match=r"message\.parts\[0\]"):
        check_parts({"parts": [part]}, card)


def test_a_skill_widens_what_its_agent_takes() -> None:
    card = AgentCard(name="a", skills=[{"id": "see", "inputModes": ["image/png"]}])
    check_parts({"parts": [TEXT, IMAGE]}, card)


def test_queries_are_read_as_the_json_that_they_stand_for() -> None:
    query = QueryParams("pageSize=5&includeArtifacts=true&status=&context_id=c&other=1")
    assert from_query(a2a_pb2.ListTasksRequest, query) == {
        "pageSize": "5",
        "includeArtifacts": True,
        "context_id": "c",
    }


@pytest.mark.parametrize(
    ("length", "kept"),
    [(None, ["a", "b"]), (0, None), (1, ["b"]), (2, ["a", "b"]), (9, ["a", "b"])],
)
def test_history_keeps_the_latest(length: int | None, kept: list[str] | None) -> None:
    assert with_history({"id": "t", "history": ["a", "b"]}, length).get("history") == kept
    assert with_history({"id": "t"}, length) == {"id": "t"}


def test_a_shard_that_no_stream_has_is_an_unknown_task() -> None:
    settings = BusSettings(event_streams=2)
    hexadecimal = "a" * 32
    assert task_key(settings, Caller(), "a", f"31-{hexadecimal}").shard == 31
    for task in (f"32-{hexadecimal}", f"9999-{hexadecimal}", hexadecimal, "", "31-*"):
        with pytest.raises(TaskUnknown):
            task_key(settings, Caller(), "a", task)


def errors_of_ours() -> list[type[HeadraceError]]:
    for package in (headrace, headrace_gateway):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".main"):
                importlib.import_module(module.name)
    found, new = set[type[HeadraceError]](), {HeadraceError}
    while new:
        found |= new
        new = {sub for error in new for sub in error.__subclasses__()} - found
    # Other tests of the session may have imported services whose errors never get here. What agents
    # raise does not either.
    ours = {
        error
        for error in found
        if error.__module__.split(".")[0] in _OURS and not error.__module__.startswith(_AGENTS)
    }
    return sorted(ours, key=lambda error: error.__name__)


@pytest.mark.parametrize("kind", [e for e in errors_of_ours() if e.retryable], ids=str)
def test_temporary_refusals_are_unavailable_or_resource_exhausted(
    kind: type[HeadraceError],
) -> None:
    problem = problem_of(kind("away", {}) if issubclass(kind, Refused) else kind("away"))
    assert problem.http_status == problem.rpc_http_status
    assert problem.http_status in {429, 503}


def test_an_unexpected_error_is_reported_without_its_text() -> None:
    problem = problem_of(ZeroDivisionError("a secret"))
    assert (problem.http_status, problem.rpc_code) == (500, -32603)
    assert "secret" not in problem.message


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("GetTask", {"id": "t1"}, "t1"),
        ("GetTask", {}, ""),
        ("ListTasks", {"id": "other"}, ""),
        ("GetTaskPushNotificationConfig", {"taskId": "t1", "id": "webhook"}, "t1"),
        ("ListTaskPushNotificationConfigs", {"task_id": "t1"}, "t1"),
        ("SendMessage", {"message": {"taskId": "t1"}}, "t1"),
        ("SendMessage", {"message": {"task_id": "t1"}}, "t1"),
        ("SendMessage", {"message": {}}, ""),
        ("SendMessage", {"message": "no object"}, ""),
        # What an operation does not read may name any task.
        ("CancelTask", {"id": "t1", "taskId": "other"}, "t1"),
        ("SendMessage", {"id": "other", "taskId": "other", "message": {"taskId": "t1"}}, "t1"),
        ("SendMessage", {"id": "other", "message": {}}, ""),
        ("DeleteTaskPushNotificationConfig", {"id": "other"}, ""),
    ],
)
def test_the_task_that_a_request_is_about_is_named_in_logs(
    operation: str, params: Json, expected: str
) -> None:
    assert task_in(operation, params) == expected
