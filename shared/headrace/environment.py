"""Settings that are read from environment variables.

pydantic-settings reads more than the environment. Its sources, parsers and models of arguments took
a tenth of the processor time of a worker's start.
"""

import os
from typing import Any

from pydantic import BaseModel, ConfigDict

_PREFIX = "HEADRACE_"


class EnvironmentSettings(BaseModel):
    """Settings whose field `x` is read from ``HEADRACE_X``, in upper or lower case.

    Arguments take precedence. A variable that is empty is not set.
    """

    model_config = ConfigDict(
        defer_build=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # each field has its type
        """Read the fields that are not `given`.

        Raises:
            ValidationError: A value is invalid.
        """
        super().__init__(**(_set_in_environment() | given))


def variable(field: str) -> str:
    """Return the environment variable of a field."""
    return f"{_PREFIX}{field.upper()}"


def _set_in_environment() -> dict[str, str]:
    """Return the values of all settings, by their fields' names."""
    named = ((name.upper(), value) for name, value in os.environ.items())
    return {
        name.removeprefix(_PREFIX).lower(): value
        for name, value in named
        if value and name.startswith(_PREFIX)
    }
