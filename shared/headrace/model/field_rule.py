"""What is wrong with a declaration, as ``field: rule``."""

from pydantic import ValidationError

_PREFIX = "Value error, "


def rule_of(text: str) -> str:
    """Return the rule in the text of one of pydantic's errors."""
    return text.removeprefix(_PREFIX)


def first_problem(invalid: ValidationError, whole: str) -> str:
    """Return the first field that breaks a rule, and the rule, without the value.

    `whole` is the name of what is declared, for rules on several of its fields.
    """
    return problems(invalid, whole)[0]


def problems(invalid: ValidationError, whole: str) -> list[str]:
    """Return each field that breaks a rule, and the rule, as `first_problem` does the first."""
    errors = invalid.errors(include_url=False, include_input=False)
    return [f"{'.'.join(map(str, one['loc'])) or whole}: {rule_of(one['msg'])}" for one in errors]
