"""Names of environment variables that are no settings: misspelt ones.

A service defines only its own settings, but its environment may contain those of all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

_PREFIX = "HEADRACE_"

_OF_KUBERNETES = re.compile(r"(_SERVICE_(HOST|PORT(_.+)?)|_PORT_\d+_(TCP|UDP)(_.+)?)$")
"""How variables end that Kubernetes adds for a Service called ``headrace-…``."""

_SIMILARITY = 0.8

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class IneffectiveSetting:
    """A variable that looks like a setting and has no effect."""

    name: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return it as a line of a log. The value is not part of it: it may be a secret."""
        return f"{self.name} {self.problem}; {self.remedy}"


@cache
def setting_names() -> frozenset[str]:
    """Return the variables that a service or the command line reads, from the file beside this."""
    return frozenset(files("headrace").joinpath("setting_names.txt").read_text().split())


def ineffective_settings(variables: Mapping[str, str]) -> Iterator[IneffectiveSetting]:
    """Yield those of `variables` that are misspelt settings.

    Variables without a similar setting are not included: they belong to others.
    """
    for name, value in sorted(variables.items()):
        if (
            name.startswith(_PREFIX)
            and name not in setting_names()
            and not _is_of_kubernetes(name, value)
            and (similar := _similar(name))
        ):
            remedy = f"did you mean {' or '.join(similar)}?"
            yield IneffectiveSetting(name, "is not a setting", remedy)


def _similar(name: str) -> list[str]:
    """Return the most similar setting, or else some that have all words of the name."""
    # Without the prefix, which makes all names similar.
    own = name.removeprefix(_PREFIX)
    settings = sorted(one.removeprefix(_PREFIX) for one in setting_names())
    found = get_close_matches(own, settings, n=1, cutoff=_SIMILARITY)
    if not found:
        longer = [one for one in settings if set(own.split("_")) <= set(one.split("_"))]
        found = get_close_matches(own, longer, n=_MOST_NAMED, cutoff=0.0)
    return [_PREFIX + one for one in found]


def _is_of_kubernetes(name: str, value: str) -> bool:
    is_address = name.endswith("_PORT") and "://" in value
    return is_address or _OF_KUBERNETES.search(name) is not None
