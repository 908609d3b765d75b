"""What is checked of everything that an agent says, before it is rendered."""

from dataclasses import fields

from headrace.sdk.emit import ENDINGS, UTTERANCES, Ending, Utterance
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.signals import SIGNALS


def check_texts(said: Utterance | Ending) -> None:
    """Check that what must be a string is one; everything else shows when it becomes JSON.

    Raises:
        MalformedOutput: a field is not, or this is not allowed as output of an agent.
    """
    if type(said) not in _TEXTS:
        raise MalformedOutput(f"{type(said).__name__} is not allowed as output of an agent")
    for name in _TEXTS[type(said)]:
        value = getattr(said, name)
        if not isinstance(value, str):
            kind = type(said).__name__
            raise MalformedOutput(f"{kind}.{name} must be a string, not {type(value).__name__}")


_TEXTS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.type is str)
    for kind in (*UTTERANCES, *SIGNALS, *ENDINGS)
}
