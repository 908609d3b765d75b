"""Descriptions of fields are in JSON Schemas, and no source is parsed on import."""

from pydantic import ConfigDict, Field

from headrace.model.described import Described, descriptions
from headrace_cli.settings_table import settings_classes


class Child(Described):
    name: str
    """Its name."""


class Parent(Described):
    model_config = ConfigDict(defer_build=True)

    undescribed: int = 0
    children: list[Child] = Field(default_factory=list)
    """All of them,
    in order."""
    first: Child | None = Field(None, alias="firstChild")
    """The first of `children`."""


class Adoptive(Parent):
    undescribed: int = 1
    """Described here."""


def test_fields_are_described_by_the_docstrings_under_them() -> None:
    schema = Parent.model_json_schema()
    properties = schema["properties"]
    assert properties["children"]["description"] == "All of them,\nin order."
    assert properties["firstChild"]["description"] == "The first of `children`."
    assert "description" not in properties["undescribed"]
    assert schema["$defs"]["Child"]["properties"]["name"]["description"] == "Its name."


def test_inherited_fields_keep_their_descriptions() -> None:
    properties = Adoptive.model_json_schema()["properties"]
    assert properties["undescribed"]["description"] == "Described here."
    assert properties["children"]["description"] == "All of them,\nin order."


def test_settings_are_described_without_having_read_their_source_on_import() -> None:
    classes = settings_classes().values()
    assert len(classes) > 4
    for each in classes:
        assert [name for name, field in each.model_fields.items() if field.description] == []
        assert set(descriptions(each)) == set(each.model_fields)
