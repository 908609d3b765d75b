"""The AsyncAPI document is what the code says, and says all of it."""

import inspect
import re

import orjson

from headrace.model.subjects import Subjects
from headrace_cli.asyncapi import document
from headrace_cli.bus_channels import CHANNELS
from tests.architecture.tree import ROOT

_FILTERS = {
    "runs_of_agent",
    "runs_of_task",
    "runs",
    "shard_events",
    "dead_letters",
    "pushes",
    "pushes_of_task",
}
"""What makes patterns over subjects, no subjects."""


def test_the_document_is_made_anew() -> None:
    page = orjson.loads((ROOT / "docs" / "asyncapi.json").read_bytes())
    assert page == document(), "run: headrace asyncapi > docs/asyncapi.json"


def test_every_kind_of_subject_is_in_the_document() -> None:
    makers = {
        name
        for name, function in inspect.getmembers(Subjects, inspect.isfunction)
        if not name.startswith("_") and function.__annotations__.get("return") is str
    }
    found = {channel.address.split(".")[1] for channel in CHANNELS if "{prefix}" in channel.address}
    assert makers - _FILTERS - {"priority_of_run"} == found


def test_every_question_to_task_state_is_in_the_document() -> None:
    folder = ROOT / "services" / "task-state" / "headrace_task_state"
    code = "".join(path.read_text() for path in folder.rglob("*.py"))
    asked = set(re.findall(r'subjects\.state\("(\w+)', code))
    assert {c.name.removeprefix("state.") for c in CHANNELS if c.name.startswith("state.")} == asked


def test_every_reference_in_the_document_leads_somewhere() -> None:
    whole = document()
    for reference in re.findall(r'"\$ref":"#/([^"$]+)"', orjson.dumps(whole).decode()):
        found = whole
        for step in reference.split("/"):
            found = found[step]
        assert found
