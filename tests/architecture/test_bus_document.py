"""The AsyncAPI document is what the code says, and says all of it."""

import inspect
import re

import orjson

from headrace.model import messages, state_operations
from headrace.model.messages import BusMessage
from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey
from headrace.state_client import StateClient
from headrace_cli.asyncapi import document
from headrace_cli.bus_channels import ANSWERS
from headrace_task_state.webhooks.bus_answers import attributes_of
from tests.architecture.tree import ROOT

_FILTERS = {
    "runs_of_agent",
    "runs_of_task",
    "runs",
    "events_of_thread",
    "live_of_thread",
    "shard_events",
    "dead_letters",
    "pushes",
    "pushes_of_task",
    "due_runs",
}
"""What makes patterns over subjects, no subjects."""


_STATE = "{prefix}.state."
"""What subjects of requests to task state begin with."""


def test_the_document_is_made_anew() -> None:
    page = orjson.loads((ROOT / "docs" / "asyncapi.json").read_bytes())
    assert page == document(), "run: headrace asyncapi > docs/asyncapi.json"


def test_every_kind_of_subject_is_in_the_document() -> None:
    makers = {
        name
        for name, function in inspect.getmembers(Subjects, inspect.isfunction)
        if not name.startswith("_") and function.__annotations__.get("return") is str
    }
    addresses = [one["address"] or "" for one in document()["channels"].values()]
    found = {address.split(".")[1] for address in addresses if "{prefix}" in address}
    assert makers - _FILTERS - {"priority_of_run"} == found


def test_every_body_of_a_message_is_in_the_document() -> None:
    bodies = {
        one.__name__
        for one in vars(messages).values()
        if inspect.isclass(one) and issubclass(one, BusMessage) and not one.__subclasses__()
    }
    assert len(bodies) > 30
    assert bodies <= document()["components"]["schemas"].keys()


def test_every_question_to_task_state_is_in_the_document_with_its_answers() -> None:
    whole = document()
    operations = whole["operations"]
    received = {name for name, one in operations.items() if one["action"] == "receive"}
    request = {name for name in received if whole["channels"][name]["address"].startswith(_STATE)}
    assert received - request == {"userEvent"}
    assert request == set(ANSWERS)
    assert len(request) == 15
    addresses = {whole["channels"][name]["address"].split(".")[2] for name in request}
    state_client = inspect.getsource(StateClient)
    called = re.findall(r"_ask\(op\.(\w+)", state_client)
    assert {getattr(state_operations, name).name for name in called} == addresses - {
        "ready",
        "more",
    }


def test_answers_are_described_with_every_attribute_that_they_may_have() -> None:
    key, content = TaskKey("t", "a", "0-1"), {"contextId": "c", "status": {"timestamp": "now"}}
    attributes = set(attributes_of(key, "id", {"statusUpdate": content}))
    whole = document()["components"]
    structured = set(whole["schemas"]["StructuredAnswer"]["properties"])
    headers = whole["messages"]["BinaryAnswerWithHeaders"]["headers"]["properties"]
    binary = {name.removeprefix("ce-") for name in headers if name.startswith("ce-")}
    assert (structured - {"data"}, binary) == (attributes, attributes)


def test_every_reference_in_the_document_leads_somewhere() -> None:
    whole = document()
    references = re.findall(r'"\$ref":"#/([^"]+)"', orjson.dumps(whole).decode())
    assert len(references) > 100
    for reference in references:
        found = whole
        for step in reference.split("/"):
            found = found[step]
        assert found
