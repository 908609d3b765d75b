"""Reading of ``headrace.yaml``; errors name line and field."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headrace_worker.config.errors import FieldPath, Finding, Lines, Unusable, fields_of, findings
from headrace_worker.config.model import Configuration

_MOST = 10_000
"""Maximum number of fields in a file."""

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def read(path: Path, environment: Mapping[str, str]) -> tuple[Configuration, Lines]:
    """Parse the file at `path`; return its configuration and the lines of its fields.

    ``${VAR}`` and ``${VAR:-default}`` are replaced in values only, as text; ``$$`` is a dollar
    sign.

    Raises:
        Unusable: the file can't be read, is not YAML, uses variables that are not set, or is
            invalid; the message lists all findings.
    """
    try:
        text = path.read_text()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        found = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path}: {error}") from None
    except RecursionError:
        raise Unusable(f"{path}: the file is nested too deeply") from None
    except yaml.YAMLError as error:
        raise Unusable(f"{path}{_where(error)}") from None
    fields = list(islice(fields_of(node), _MOST + 1)) if node is not None else []
    if len(fields) > _MOST:
        raise Unusable(f"{path.name}: the file has more than {_MOST} fields or contains itself")
    lines, values = Lines(path.name, dict(fields)), _Values(environment)
    wrong = _twice(name for name, _ in fields)
    filled = values.filled(found, ())
    wrong += values.wrong
    configuration: Configuration | None = None
    try:
        configuration = Configuration.model_validate(filled)
    except ValidationError as invalid:
        unfilled = {place for place, _ in values.wrong}
        wrong += [finding for finding in findings(invalid, lines) if finding[0] not in unfilled]
    if wrong or configuration is None:
        raise Unusable("\n".join(lines.report(wrong)))
    return configuration, lines


def _twice(names: Iterable[FieldPath]) -> list[Finding]:
    """Return the duplicate fields, without the fields inside them."""
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [(name, "is declared twice") for name in twice if name[:-1] not in twice]


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error)
    return f": {what}" if mark is None else f":{mark.line + 1}: {what}"


@dataclass
class _Values:
    """Substitution of variables in values."""

    environment: Mapping[str, str]
    wrong: list[Finding] = field(default_factory=list)
    """Values that can't be substituted."""

    def filled(self, value: Any, path: FieldPath) -> Any:  # noqa: ANN401  # YAML
        """Return `value` with its variables replaced."""
        if isinstance(value, dict):
            return {key: self.filled(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one, (*path, n)) for n, one in enumerate(value)]
        return self._expanded(value, path) if isinstance(value, str) else value

    def _expanded(self, text: str, path: FieldPath) -> str:
        def fill(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name is None:
                return "$"
            # As with `:-` in a shell, an empty variable counts as unset.
            filled = self.environment.get(name) or default
            if filled is None:
                self.wrong.append((path, f"environment variable {name} is not set"))
            return filled or ""

        filled = _VARIABLE.sub(fill, text)
        if not filled.isprintable() and _NOT_TEXT.search(filled):
            self.wrong.append((path, "contains characters that are not valid Unicode"))
        return filled
