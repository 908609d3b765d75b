"""Path parameters of any text: context ids contain any characters, line breaks among them."""

from starlette.convertors import Convertor, register_url_convertor


class _AnyText(Convertor[str]):
    """As Starlette's ``path``, whose dots stop at a line break."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


_KIND = "text"

register_url_convertor(_KIND, _AnyText())


def any_text(name: str) -> str:
    """Return the parameter `name` for a route's path."""
    return f"{{{name}:{_KIND}}}"
