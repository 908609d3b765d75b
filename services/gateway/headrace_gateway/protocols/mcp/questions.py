"""Questions of agents as forms that MCP's clients show, and what the user enters as an answer.

A form is flat: texts, numbers, choices. What of a question's schema does not fit is left out, and a
question without a schema, or with one that needs more, asks for a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from headrace.model.events import INPUT_SCHEMA, INTERRUPTS, Json
from headrace.model.parts import words_of
from headrace.model.user_message import answer_parts

_TEXT_FIELD = "answer"
_SIMPLE = frozenset({"string", "number", "integer", "boolean"})
_FORMATS = frozenset({"email", "uri", "date", "date-time"})
_KEYS = frozenset(
    {
        "type",
        "title",
        "description",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "enum",
        "enumNames",
        "oneOf",
        "items",
        "minItems",
        "maxItems",
    }
)
"""Keywords of MCP's form fields, beside ``format`` and ``default``."""


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """The question at the end of a run."""

    generation: int
    """Of the event that asks it."""
    message: str
    interrupts: tuple[Json, ...]
    """Empty: the question has no parts of its own."""
    schema: Json | None
    """The schema of the answer, if there is one answer."""

    @classmethod
    def of(cls, event: Json, generation: int) -> Self:
        """Return the question that the log's `event`, an INPUT_REQUIRED status, asks."""
        update = event.get("statusUpdate") or {}
        message = (update.get("status") or {}).get("message") or {}
        interrupts = tuple((update.get("metadata") or {}).get(INTERRUPTS) or ())
        schema = (message.get("metadata") or {}).get(INPUT_SCHEMA)
        if len(interrupts) == 1:
            schema = interrupts[0].get("responseSchema") or schema
        text = words_of(message.get("parts") or ())
        asked = [str(one["message"]) for one in interrupts if one.get("message")]
        return cls(generation, text or " ".join(asked), interrupts, schema)

    @property
    def key(self) -> str:
        """Its name among the task's questions."""
        return f"q{self.generation}"

    def elicitation(self) -> Json:
        """Return the request that shows it."""
        message = self.message or "The agent needs an answer to go on."
        form = {"mode": "form", "message": message, "requestedSchema": self._form()}
        return {"method": "elicitation/create", "params": form}

    def answer(self, result: Mapping[str, Any]) -> list[Json]:
        """Return the parts of the answer; what the user does not accept is cancelled."""
        content = result.get("content") if result.get("action") == "accept" else None
        names = [str(one["id"]) for one in self.interrupts] or [self.key]
        if not isinstance(content, dict):
            return answer_parts(dict.fromkeys(names))
        if len(self.interrupts) > 1:
            return answer_parts({name: content.get(name) for name in names})
        value = content if _fields_of(self.schema) else content.get(_TEXT_FIELD, "")
        if self.interrupts:
            return answer_parts({names[0]: value})
        return [{"text": value}] if isinstance(value, str) else [{"data": value}]

    def _form(self) -> Json:
        if len(self.interrupts) > 1:
            fields = {str(one["id"]): _field_for(one) for one in self.interrupts}
            return {"type": "object", "properties": fields, "required": list(fields)}
        if fields := _fields_of(self.schema):
            required = [
                name for name in (self.schema or {}).get("required") or () if name in fields
            ]
            return {"type": "object", "properties": fields, "required": required}
        text = {"type": "string", "title": "Answer"}
        return {"type": "object", "properties": {_TEXT_FIELD: text}, "required": [_TEXT_FIELD]}


def _field_for(interrupt: Json) -> Json:
    """Return the field of one of several interrupts."""
    field = _field(interrupt.get("responseSchema")) or {"type": "string"}
    title = str(interrupt.get("message") or interrupt["id"])
    return {"title": title, **field}


def _fields_of(schema: object) -> dict[str, Json]:
    """Return the form's fields for a schema; empty: it can't be answered with a form."""
    if not isinstance(schema, dict) or not isinstance(found := schema.get("properties"), dict):
        return {}
    fields = {name: field for name, one in found.items() if (field := _field(one))}
    return fields if set(schema.get("required") or ()) <= fields.keys() else {}


def _field(schema: object) -> Json | None:
    """Return the form's field for a property's schema; None: no form has such a field."""
    if not isinstance(schema, dict) or not _is_simple(schema):
        return None
    field = {key: value for key, value in schema.items() if key in _KEYS}
    if schema.get("format") in _FORMATS:
        field["format"] = schema["format"]
    if schema.get("default") is not None:
        field["default"] = schema["default"]
    return field


def _is_simple(schema: Json) -> bool:
    kind, items = schema.get("type"), schema.get("items")
    if kind == "array":
        return isinstance(items, dict) and ("enum" in items or "anyOf" in items)
    return isinstance(kind, str) and kind in _SIMPLE
