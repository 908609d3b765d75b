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
    [first, *_] = invalid.errors(include_url=False, include_input=False)
    return f"{'.'.join(map(str, first['loc'])) or whole}: {rule_of(first['msg'])}"
