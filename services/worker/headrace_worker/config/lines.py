"""Line numbers of the file's fields, for error messages."""

from collections import deque
from collections.abc import Iterator, Mapping

import yaml

from headrace.model.errors import HeadraceError

type FieldPath = tuple[str | int, ...]

type Finding = tuple[FieldPath, str]
"""A field, and the problem with it."""


class Unusable(HeadraceError):
    """The file can't be used; each line of the message names a line, a field and a rule."""

    code = "configuration_unusable"


class FieldUnusable(HeadraceError):
    """One field can't be used."""

    code = "configuration_unusable"

    def __init__(self, path: FieldPath, rule: str) -> None:
        """Report that the field at `path` violates `rule`."""
        super().__init__(rule)
        self.finding: Finding = (path, rule)


class Lines:
    """Formatter of findings by line and field; only by field for a configuration made in code."""

    def __init__(self, name: str = "", lines: Mapping[FieldPath, int] | None = None) -> None:
        """Format findings on the file `name`; `lines` has its fields' line numbers."""
        self._name, self._lines = name, lines or {}

    def __contains__(self, path: FieldPath) -> bool:
        return path in self._lines

    def at(self, path: FieldPath, rule: str) -> str:
        """Return a finding with its location: ``headrace.yaml:7: agents.helper.url: …``."""
        field = ".".join(map(str, path)) or "the file"
        where = f"{self._name}:{self._line(path)}: " if self._name else ""
        return f"{where}{field}: {rule}"

    def report(self, findings: list[Finding]) -> list[str]:
        """Return each finding once, in the order of the file."""
        found = sorted(dict.fromkeys(findings), key=lambda finding: self._line(finding[0]))
        return [self.at(path, rule) for path, rule in found]

    def _line(self, path: FieldPath) -> int:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def fields_of(node: yaml.Node) -> Iterator[tuple[FieldPath, int]]:
    """Yield every field and its line; endless if a field contains itself."""
    ahead: deque[tuple[FieldPath, yaml.Node, int]] = deque([((), node, node.start_mark.line)])
    while ahead:
        path, node, line = ahead.popleft()
        yield path, line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                ahead.append(((*path, key.value), value, key.start_mark.line))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                ahead.append(((*path, index), item, item.start_mark.line))
