"""Reading the fields of a request's body, each with a clear error."""

from headrace.model.events import Json
from headrace_gateway.protocols.openai.errors import RequestInvalid


def text_in(holder: Json, name: str, path: str = "", default: str | None = None) -> str:
    """Return a field that is a string; `default` if it is missing or null.

    Raises:
        RequestInvalid: it is no string, or missing without a default.
    """
    value = holder.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise RequestInvalid(f"{path}{name}", "must be a string")
    return value


def flag_in(holder: Json, name: str) -> bool:
    """Return a field that is true or false; False if it is missing or null.

    Raises:
        RequestInvalid: it is neither.
    """
    value = holder.get(name)
    if not isinstance(value, bool | None):
        raise RequestInvalid(name, "must be true or false")
    return bool(value)


def object_in(holder: Json, name: str, path: str = "") -> Json:
    """Return a field that is an object; an empty one if it is missing or null.

    Raises:
        RequestInvalid: it is no object.
    """
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestInvalid(f"{path}{name}", "must be an object")
    return value


def objects_in(holder: Json, name: str, path: str = "") -> list[Json]:
    """Return a field that is a list of objects; an empty one if it is missing or null.

    Raises:
        RequestInvalid: it is no such list.
    """
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RequestInvalid(f"{path}{name}", "must be a list")
    for at, each in enumerate(value):
        if not isinstance(each, dict):
            raise RequestInvalid(f"{path}{name}[{at}]", "must be an object")
    return value
