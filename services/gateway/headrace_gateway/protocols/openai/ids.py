"""Ids of responses and of calls.

They say where the run is in the fleet, so any gateway finds it without a look-up. They grant
nothing: each request is checked as one for the task that it names.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, Self

from headrace.model.run_ids import run_digest

_RESPONSE = re.compile(
    r"resp_(?P<run>[1-9][0-9]{0,14})_(?P<task>[0-9]+-[0-9a-f]{32})_(?P<agent>.+)"
)
_CALL = re.compile(r"call_(?P<run>[1-9][0-9]{0,14})_(?P<task>[0-9]+-[0-9a-f]{32})_[0-9a-f]{10}")


class RunPlace(NamedTuple):
    """One run: what clients of OpenAI's API call a response or a completion."""

    agent: str
    task: str
    run: int
    """Generation of the run's input."""

    @classmethod
    def of_response(cls, given: str) -> Self | None:
        """Return the run of a response's id; None if no response has that id."""
        found = _RESPONSE.fullmatch(given)
        return None if found is None else cls(found["agent"], found["task"], int(found["run"]))

    @classmethod
    def of_call(cls, given: str, agent: str) -> Self | None:
        """Return the run that made a call of `agent`; None if the id is not of this fleet."""
        found = _CALL.fullmatch(given)
        return None if found is None else cls(agent, found["task"], int(found["run"]))

    @property
    def response(self) -> str:
        """The id of the response."""
        return f"resp_{self.run}_{self.task}_{self.agent}"

    @property
    def completion(self) -> str:
        """The id of the chat completion."""
        return f"chatcmpl-{self.run}_{self.task}"

    def call(self, own: str) -> str:
        """Return the id that clients receive for the agent's call `own`.

        It has at most 64 characters, the limit of OpenAI's API.
        """
        digest = blake2b(own.encode(errors="surrogatepass"), digest_size=5).hexdigest()
        return f"call_{self.run}_{self.task}_{digest}"

    def own_call(self, given: str, calls: Iterable[str]) -> str | None:
        """Return which of the agent's `calls` a client names; None if it names another one."""
        return next((own for own in calls if given in (own, self.call(own))), None)

    def item(self, kind: str, number: int) -> str:
        """Return the id of the output item with `number`, such as ``msg_3f9a1c0b2d_0``."""
        return f"{kind}_{run_digest(self.task, self.run)}_{number}"
