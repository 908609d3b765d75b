"""Secret settings, given as a value or as a file that is read on each use.

A file is read for every connection, so a replaced password, key or certificate takes effect with
the next one. Error messages never contain secrets.
"""

from pathlib import Path
from typing import Self

from pydantic import SecretStr, ValidationError, model_validator

from headrace.environment import EnvironmentSettings, variable
from headrace.model.field_rule import rule_of

__all__ = ["SecretSettings", "SecretStr", "SecretUnreadable", "setting_errors"]

_FILE = "_file"


class SecretUnreadable(OSError):
    """A file that a setting names can't be read, or its content can't be used."""


class SecretSettings(EnvironmentSettings):
    """Settings in which a secret `X` has a second field ``X_file``."""

    def secret(self, name: str) -> str:
        """Return the setting `name`, read from its file if one is set. Empty: neither is set.

        A line break at the end of the file is removed.

        Raises:
            SecretUnreadable: The file can't be read.
        """
        file: Path | None = getattr(self, f"{name}{_FILE}")
        if file is None:
            given: SecretStr = getattr(self, name)
            return given.get_secret_value()
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SecretUnreadable(f"{self.place_of(name)}: {why}") from None
        return text.removesuffix("\n").removesuffix("\r")

    def place_of(self, name: str) -> str:
        """Return where the setting `name` is given, for messages: its variable, and its file."""
        file: Path | None = getattr(self, f"{name}{_FILE}")
        return variable(name) if file is None else f"{variable(f'{name}{_FILE}')} ({file})"

    def has(self, name: str) -> bool:
        """Return whether the setting `name` is set, as a value or as a file."""
        return bool(getattr(self, name).get_secret_value() or getattr(self, f"{name}{_FILE}"))

    @model_validator(mode="after")
    def _secrets_are_given_once_and_readable(self) -> Self:
        for field in type(self).model_fields:
            name = field.removesuffix(_FILE)
            if field == name or name not in type(self).model_fields:
                continue
            if getattr(self, field) and getattr(self, name).get_secret_value():
                raise ValueError(f"{variable(name)} and {variable(field)} are both set; set one")
            try:
                self.secret(name)
            except SecretUnreadable as error:
                raise ValueError(str(error)) from None
        return self

    def _require_pair(self, one: str, other: str) -> None:
        if self.has(one) and not self.has(other):
            raise ValueError(f"{variable(one)} is set without {variable(other)}; set both")


def setting_errors(invalid: ValidationError) -> list[str]:
    """Return one line for each invalid variable, with the rule that it breaks, never the value."""
    errors = invalid.errors(include_url=False, include_input=False, include_context=False)
    return [_error_line(error["loc"], error["msg"]) for error in errors]


def _error_line(location: tuple[int | str, ...], rule: str) -> str:
    stated = rule_of(rule)
    return f"{variable('_'.join(map(str, location)))}: {stated}" if location else stated
