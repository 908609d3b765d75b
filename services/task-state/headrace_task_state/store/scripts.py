"""The Lua scripts of this service, read once."""

from functools import cache
from hashlib import sha1
from importlib.resources import files

_NEED_LISTINGS = frozenset({"apply"})


class Script:
    """One script and the digest by which Redis knows it."""

    def __init__(self, name: str) -> None:
        """Read ``lua/<name>.lua``, after what it needs from ``listings.lua``."""
        folder = files("headrace_task_state") / "lua"
        shared = (folder / "listings.lua").read_text() if name in _NEED_LISTINGS else ""
        self.name = name
        self.text = shared + (folder / f"{name}.lua").read_text()
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """Return the script of that name."""
    return Script(name)
