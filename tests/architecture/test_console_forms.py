"""The console's forms have each member of a declaration: what they save replaces all of it."""

import re

import pytest
from pydantic import BaseModel

from headrace.schedule_spec import BackFill, ScheduleSpec
from headrace.trigger_spec import TriggerSpec
from tests.architecture.tree import ROOT

_SOURCE = ROOT / "services" / "console" / "src"
_FIELD = re.compile(r'^  \{ name: "(\w+)"', re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "declared", "elsewhere"),
    [
        # Its name does not change, and a button pauses it.
        ("pages/triggers.tsx", TriggerSpec, {"name", "paused"}),
        ("pages/schedules.tsx", ScheduleSpec, set[str]()),
        ("declarations/back_fill.tsx", BackFill, set[str]()),
    ],
)
def test_a_form_has_each_member_of_a_declaration(
    page: str, declared: type[BaseModel], elsewhere: set[str]
) -> None:
    members = {field.alias or name for name, field in declared.model_fields.items()}
    assert set(_FIELD.findall((_SOURCE / page).read_text())) == members - elsewhere
