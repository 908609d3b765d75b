"""What a gateway answers is what its OpenAPI document says, on every replica."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.support.fleet import Fleet
from tests.support.plain_a2a import message

Json = dict[str, Any]

_SCHEDULE = {"agent": "echo", "message": "report", "every": "1h"}
_TRIGGER = {"agent": "echo", "subject": "openapi.orders"}

PREPARED: tuple[tuple[str, str, Json], ...] = (
    ("PUT", "/v1/schedules/{name}", _SCHEDULE),
    ("PUT", "/v1/triggers/{name}", _TRIGGER),
)
"""Requests that begin something, in this order before the others."""

SAMPLE: tuple[tuple[str, str, Json | None], ...] = (
    ("GET", "/v1/agents", None),
    ("GET", "/v1/agents/{agent}", None),
    ("GET", "/.well-known/agent-card.json", None),
    ("GET", "/.well-known/a2a", None),
    ("GET", "/.well-known/a2a/agents/{agent}", None),
    ("GET", "/.well-known/jwks.json", None),
    ("GET", "/v1/agents/{agent}/tasks", None),
    ("GET", "/v1/agents/{agent}/tasks/{id}", None),
    ("PUT", "/v1/agents/{agent}/tasks/{task}/feedback", {"rating": "up", "comment": "good"}),
    ("GET", "/v1/agents/{agent}/tasks/{task}/feedback", None),
    ("GET", "/v1/agents/{agent}/tasks/{task}/log", None),
    ("GET", "/v1/agents/{agent}/tasks/{taskId}/pushNotificationConfigs", None),
    ("GET", "/v1/agents/{agent}/ag-ui/capabilities", None),
    ("GET", "/v1/agents/{agent}/ag-ui/threads/{thread}", None),
    ("GET", "/v1/agents/{agent}/ai-sdk/{chat}/messages", None),
    ("POST", "/v1/agents/{agent}/ai-sdk/{chat}/stop", None),
    ("GET", "/copilotkit/info", None),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/{agent}", None),
    (
        "POST",
        "/v1/chat/completions",
        {"model": "echo", "messages": [{"role": "user", "content": "hi"}]},
    ),
    ("POST", "/v1/responses", {"model": "echo", "input": "hi"}),
    ("GET", "/v1/fleet", None),
    ("GET", "/v1/fleet/agents/{agent}/versions", None),
    ("GET", "/v1/usage", None),
    ("GET", "/v1/webhook-deliveries", None),
    ("GET", "/v1/processes", None),
    ("GET", "/v1/dev/processes", None),
    ("GET", "/v1/dead-letters", None),
    ("POST", "/v1/dead-letters:drop", {"ids": [999_999]}),
    ("GET", "/v1/schedules", None),
    ("GET", "/v1/schedules/{name}", None),
    ("POST", "/v1/schedules/{name}:pause", None),
    ("GET", "/v1/schedules/{name}/dead-letters", None),
    ("GET", "/v1/triggers", None),
    ("GET", "/v1/triggers/{name}", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
)

REFUSED: tuple[tuple[str, str, Json | None], ...] = (
    ("GET", "/v1/agents/{agent}/tasks/none", None),
    ("GET", "/v1/models/none", None),
    ("PUT", "/v1/schedules/{name}", {"agent": "echo"}),
    ("GET", "/v1/dead-letters?limit=0", None),
    ("POST", "/v1/agents/{agent}/ag-ui", {"threadId": 1}),
)
"""Requests that break a rule of theirs."""


class Described:
    """A gateway, with what its document says."""

    def __init__(self, http: httpx.AsyncClient, url: str, document: Json) -> None:
        self.http, self.url, self.document = http, url, document

    async def answer(
        self, method: str, path: str, values: Mapping[str, str], body: Json | None = None
    ) -> httpx.Response:
        return await self.http.request(
            method,
            self.url + path.format(**values),
            json=body,
            headers={"A2A-Version": "1.0", "Accept": "application/json"},
        )

    def problems(self, method: str, path: str, answer: httpx.Response) -> list[str]:
        """What of an answer is not as the document says."""
        operation = self.document["paths"][path][method.lower()]
        found = operation["responses"].get(str(answer.status_code))
        if found is None:
            found = self._resolved(operation["responses"]["default"])
        schema = found["content"]["application/json"]["schema"]
        # References begin at the root of the schema that is validated.
        whole = {"allOf": [schema], "components": self.document["components"]}
        validator = Draft202012Validator(whole)
        return [
            f"{method} {path}: {'.'.join(map(str, one.absolute_path))}: {one.message[:200]}"
            for one in validator.iter_errors(answer.json())
        ]

    def _resolved(self, response: Json) -> Json:
        found: Any = self.document
        for step in response["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        whole: Json = found
        return whole


@pytest.fixture
async def described(fleet: Fleet, http: httpx.AsyncClient) -> list[Described]:
    """The gateways."""
    answers = [await http.get(f"{url}/openapi.json") for url in fleet.gateways]
    return [
        Described(http, url, answer.raise_for_status().json())
        for url, answer in zip(fleet.gateways, answers, strict=True)
    ]


async def test_answers_are_as_the_document_says(described: list[Described]) -> None:
    [one, other] = described
    values = {"agent": "echo", "name": "openapi-sample", "chat": "openapi", "thread": "openapi"}
    for method, path, declared in PREPARED:
        answer = await one.answer(method, path, values, declared)
        assert one.problems(method, path, answer.raise_for_status()) == []
    sending = "/v1/agents/{agent}/message:send"
    sent = await one.answer(
        "POST", sending, values, {"message": message("hi") | {"contextId": "openapi"}}
    )
    assert one.problems("POST", sending, sent.raise_for_status()) == []
    task = sent.json()["task"]["id"]
    values |= {"id": task, "task": task, "taskId": task}
    problems = list[str]()
    for gateway in (one, other):
        for method, path, body in SAMPLE:
            answer = await gateway.answer(method, path, values, body)
            problems += gateway.problems(method, path, answer.raise_for_status())
    for path in ("/v1/schedules/{name}", "/v1/triggers/{name}"):
        answer = await other.answer("DELETE", path, values)
        problems += other.problems("DELETE", path, answer.raise_for_status())
    assert sorted(set(problems)) == []


async def test_refusals_are_as_the_document_says(described: list[Described]) -> None:
    values = {"agent": "echo", "name": "openapi-refused"}
    problems = list[str]()
    for method, path, body in REFUSED:
        answer = await described[0].answer(method, path, values, body)
        assert answer.is_client_error, (method, path, answer.text)
        route = path.partition("?")[0].replace("tasks/none", "tasks/{id}")
        route = route.replace("models/none", "models/{agent}")
        problems += described[0].problems(method, route, answer)
    assert sorted(set(problems)) == []


async def test_the_document_and_its_page_are_the_same_everywhere_and_cached(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    for path in ("/openapi.json", "/docs"):
        [one, other] = [await http.get(url + path) for url in fleet.gateways]
        assert one.content == other.content
        known = {"If-None-Match": one.headers["etag"]}
        again = await http.get(fleet.gateways[1] + path, headers=known)
        assert (again.status_code, again.content) == (304, b"")
        plain = await http.get(fleet.gateways[0] + path, headers={"Accept-Encoding": "identity"})
        assert plain.content == one.content
        assert "content-encoding" not in plain.headers
    page = await http.get(f"{fleet.gateways[0]}/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"<style>" in page.content
