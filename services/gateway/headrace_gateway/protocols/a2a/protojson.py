"""Reading ProtoJSON by its schema, into plain JSON that says the same.

The SDK's parser would do, but for two things: a ``google.protobuf.Struct`` turns 0 into 0.0, and
its errors do not say in which part of which field the fault lies. So this walks the raw JSON along
the message's schema: it checks what the parser checks and that nothing required is missing, names
fields canonically (snake_case is read too), writes enums by name and leaves out what says nothing,
while ``data`` and ``metadata`` stay as they came. Unknown fields are passed over.
"""

from typing import Any

from google.protobuf.message import Message
from starlette.datastructures import QueryParams

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.proto_scalars import NotReadable, boolean
from headrace_gateway.protocols.a2a.proto_schema import Field, Free, Nested, Schema, schema
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.json_depth import RULE, is_too_deep


def read(message: type[Message], value: object) -> Json:
    """Return `value` as canonical ProtoJSON of that kind of message.

    Raises:
        Malformed: it is not such a message; every field at fault is named.
    """
    walk = _Walk()
    result = walk.message(schema(message), value, "")
    if walk.violations:
        raise Malformed(walk.violations)
    return result


class _Walk:
    """One reading; it goes on after a violation, so that all are told at once."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def message(self, of: Schema, value: object, path: str) -> Json:
        if not isinstance(value, dict):
            self._complain(path, "must be an object")
            return {}
        result: Json = {}
        for field, given in self._known(of, value, path):
            read = self._field(field, given, _join(path, field.name))
            if read != field.default or (field.default is None and field.kind is Free.VALUE):
                result[field.name] = read
        self._check_present(of, result, path)
        return result

    def _known(self, of: Schema, value: Json, path: str) -> list[tuple[Field, Any]]:
        seen: dict[str, tuple[Field, Any]] = {}
        for name, given in value.items():
            field = of.fields.get(name)
            if field is None or (given is None and field.kind is not Free.VALUE):
                continue
            if (other := seen.get(field.oneof or field.name)) is not None:
                self._complain(_join(path, field.name), f"must not stand beside {other[0].name}")
            seen[field.oneof or field.name] = field, given
        return list(seen.values())

    def _field(self, field: Field, given: object, path: str) -> object:
        if not field.repeated:
            return self._value(field, given, path)
        if not isinstance(given, list):
            self._complain(path, "must be a list")
            return []
        return [self._value(field, one, f"{path}[{i}]") for i, one in enumerate(given)]

    def _value(self, field: Field, given: object, path: str) -> object:
        kind = field.kind
        if isinstance(kind, Free):
            self._check_free(kind, given, path)
            return given
        if isinstance(kind, Nested):
            return self.message(kind.schema, given, path)
        try:
            return kind(given)
        except NotReadable as fault:
            self._complain(path, str(fault))
            return field.default

    def _check_free(self, kind: Free, given: object, path: str) -> None:
        if kind is Free.STRUCT and not isinstance(given, dict):
            self._complain(path, "must be an object")
        elif is_too_deep(given):
            self._complain(path, RULE)

    def _check_present(self, of: Schema, result: Json, path: str) -> None:
        for field in of.required:
            if field.name not in result and not self._at_fault(_join(path, field.name)):
                rule = "must not be empty" if field.repeated else "is required"
                self._complain(_join(path, field.name), rule)
        for members in of.oneofs:
            if not any(name in result for name in members) and not self._at_fault(path):
                self._complain(path, f"must have one of {', '.join(members)}")

    def _at_fault(self, path: str) -> bool:
        return any(violation.field.startswith(path) for violation in self.violations)

    def _complain(self, path: str, rule: str) -> None:
        self.violations.append(Violation(path, rule))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_BOOLEANS = {"true": True, "false": False}


def from_query(message: type[Message], query: QueryParams) -> Json:
    """Return the fields of the message that `query` names; an empty value says nothing.

    Numbers, enums and times may stand as strings in ProtoJSON too; only booleans need turning.
    """
    fields, found = schema(message).fields, dict[str, object]()
    for name, value in query.items():
        field = fields.get(name)
        if field is None or not value:
            continue
        found[name] = _BOOLEANS.get(value.lower(), value) if field.kind is boolean else value
    return found
