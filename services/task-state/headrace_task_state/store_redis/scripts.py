"""The Lua scripts that Redis runs, each with what it shares with others before it."""

from functools import cache
from hashlib import sha1
from importlib.resources import files

from headrace_task_state.store_redis.encoding import LETTERS, MOST_BYTES, MOST_ITEMS, USUAL

_SHARED = {
    "apply": ("packed", "members", "usage", "listings"),
    "complete": ("packed", "members", "usage", "listings"),
    "fields": ("packed",),
    "page": ("packed", "members", "history"),
    "task": ("packed", "history"),
}
"""The scripts with functions that a script needs, by its name."""


def _encoding() -> str:
    """Return the constants of `encoding` that ``lua/packed.lua`` and the scripts after it use."""
    letters = ", ".join(f"{state} = '{letter.decode()}'" for state, letter in LETTERS.items())
    usual = ", ".join(f"'{name}'" for name in USUAL)
    return (
        f"local USUAL = {{ {usual} }}\n"
        f"local LETTERS = {{ {letters} }}\n"
        f"local MOST_BYTES, MOST_ITEMS = {MOST_BYTES}, {MOST_ITEMS}\n"
    )


class Script:
    """One script and the digest under which Redis has it."""

    def __init__(self, name: str) -> None:
        """Read ``lua/<name>.lua``, with the scripts that it needs before it."""
        folder = files(__package__) / "lua"
        shared = _SHARED.get(name, ())
        texts = [(folder / f"{one}.lua").read_text() for one in (*shared, name)]
        self.name = name
        self.text = "".join([_encoding(), *texts] if "packed" in shared else texts)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """Return the script of that name."""
    return Script(name)
