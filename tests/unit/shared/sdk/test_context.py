"""A run's context shows authors what they may use, and holds the runtime behind one handle."""

from dataclasses import fields

from headrace.sdk.context import RunContext
from headrace.sdk.runtime import Runtime


def test_the_runtime_is_the_only_private_field() -> None:
    private = {one.name: one.type for one in fields(RunContext) if one.name.startswith("_")}
    assert private == {"_runtime": Runtime}


def test_everything_else_is_explained_to_authors() -> None:
    members = {name: one for name, one in vars(RunContext).items() if not name.startswith("_")}
    assert len(members) > 20
    assert [name for name, one in members.items() if not one.__doc__] == []
