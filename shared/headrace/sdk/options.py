"""Options that belong together, such as `Card`: all by name, and a wrong one is refused with help.

The message says where the option belongs, or which options there are.
"""

from collections.abc import Collection
from dataclasses import fields
from functools import wraps
from typing import Any

from headrace.did_you_mean import did_you_mean
from headrace.sdk.errors import UnknownOption
from headrace.sdk.source import called_at

_KNOWN: dict[str, Collection[str]] = {}
"""The names of options, by how such an option is written: ``retry=Retry({}=…)``."""


def know_options(form: str, names: Collection[str]) -> None:
    """Remember that options with `names` are written as `form`."""
    _KNOWN[form] = names


def remedy(option: str, owner: str, names: Collection[str]) -> str:
    """Return what to do about an unknown option of `owner`, which has `names`."""
    for form, others in _KNOWN.items():
        if option in others:
            return f"; write {form.format(option)}"
    return did_you_mean(option, names) or f"; {owner} has {', '.join(names)}"


def option_group[T: type](group: T) -> T:
    """Decorate a dataclass: a wrong keyword, or a value without one, is an `UnknownOption`."""
    construct, kind = vars(group)["__init__"], group.__name__
    known = [field.name for field in fields(group)]
    know_options(f"{kind.lower()}={kind}({{}}=…)", known)

    @wraps(construct)
    def checked(self: Any, *values: object, **options: object) -> None:  # noqa: ANN401  # a `group`
        for value in values:
            names = ", ".join(known)
            raise UnknownOption(
                f"{kind}({value!r}): options of {kind} have names: {names}{called_at()}"
            )
        for option in options:
            if option not in known:
                help_ = remedy(option, kind, known)
                raise UnknownOption(f"unknown option {option!r} of {kind}{help_}{called_at()}")
        construct(self, **options)

    group.__init__ = checked  # type: ignore[misc]  # every instance is made by it
    return group
