"""Reading ``headrace.yaml``: what is wrong with it is told by line and field."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headrace.model.errors import HeadraceError
from headrace_worker.config.model import Configuration

_MOST = 10_000
"""Fields of a file."""

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_UNSAYABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

type Path_ = tuple[str | int, ...]


class Unusable(HeadraceError):
    """The file can't be used; the message names the line, the field and the rule."""

    code = "configuration_unusable"


def read(path: Path, environment: Mapping[str, str]) -> Configuration:
    """Return what the file at `path` says, ``${VAR}`` and ``${VAR:-default}`` filled in.

    Only values are filled in, each as text; ``$$`` is a dollar sign.

    Raises:
        Unusable: it can't be read, is no YAML, names a variable that is not set, or does not fit.
    """
    try:
        text = path.read_text()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        found = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path}: {error}") from None
    except RecursionError:
        raise Unusable(f"{path}: it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise Unusable(f"{path}{_where(error)}") from None
    fields = list(islice(_lines(node), _MOST + 1)) if node is not None else []
    if len(fields) > _MOST:
        raise Unusable(f"{path.name}: it has more than {_MOST} fields, or contains itself")
    told = _Told(path.name, dict(fields))
    for twice, count in Counter(field for field, _ in fields).items():
        if count > 1:
            raise Unusable(told.at(twice, "is there twice"))
    try:
        return Configuration.model_validate(_filled(found, (), environment, told))
    except ValidationError as invalid:
        raise Unusable("\n".join(told.problems(invalid))) from None


class _Told:
    """Tells problems by line and field."""

    def __init__(self, name: str, lines: Mapping[Path_, int]) -> None:
        self._name, self._lines = name, lines

    def at(self, path: Path_, rule: str) -> str:
        """Return where and what: ``headrace.yaml:7: agents.helper.url: …``."""
        known = path
        while known and known not in self._lines:
            known = known[:-1]
        field = ".".join(map(str, path)) or "the file"
        return f"{self._name}:{self._lines.get(known, 1)}: {field}: {rule}"

    def problems(self, invalid: ValidationError) -> Iterator[str]:
        """Yield a line for each problem."""
        for error in invalid.errors(include_url=False):
            yield self.at(self._path(error["loc"]), error["msg"])

    def _path(self, loc: tuple[int | str, ...]) -> Path_:
        """Return the field's path in the file: pydantic names the kind of agent within it."""
        path: Path_ = ()
        for position, step in enumerate(loc):
            kinds = {
                "python",
                "openai",
                "a2a",
                "mcp",
                "ag-ui",
                "bearer",
                "api_key",
                "oauth2",
                "[key]",
            }
            if step in kinds and (*path, step) not in self._lines and position:
                continue
            path = (*path, step)
        return path


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error)
    return f": {what}" if mark is None else f":{mark.line + 1}: {what}"


def _lines(node: yaml.Node, path: Path_ = ()) -> Iterator[tuple[Path_, int]]:
    """Yield the line of every field: without end, where one contains itself."""
    ahead: deque[tuple[Path_, yaml.Node, int]] = deque([(path, node, node.start_mark.line)])
    while ahead:
        path, node, line = ahead.popleft()
        yield path, line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                ahead.append(((*path, key.value), value, key.start_mark.line))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                ahead.append(((*path, index), item, item.start_mark.line))


def _filled(value: Any, path: Path_, environment: Mapping[str, str], told: _Told) -> Any:  # noqa: ANN401  # YAML
    if isinstance(value, dict):
        return {key: _filled(one, (*path, key), environment, told) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, (*path, n), environment, told) for n, one in enumerate(value)]
    return _expanded(value, path, environment, told) if isinstance(value, str) else value


def _expanded(text: str, path: Path_, environment: Mapping[str, str], told: _Told) -> str:
    def fill(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None:
            return "$"
        # As in a shell's `:-`, an empty variable is none.
        filled = environment.get(name) or default
        if filled is None:
            raise Unusable(told.at(path, f"the environment has no {name}"))
        return filled

    filled = _VARIABLE.sub(fill, text)
    if not filled.isprintable() and _UNSAYABLE.search(filled):
        raise Unusable(told.at(path, "has characters that no text may have"))
    return filled
