"""How an agent asks others: methods of its context."""

from collections.abc import Awaitable, Callable

from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.errors import DelegationRefused
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Named, Question, message_of, name_of
from headrace_worker.delegation.result import Result
from headrace_worker.delegation.stream import Delegation

type Waiting = Callable[[], Awaitable[tuple[str, str] | None]]
"""Finds task and agent of the child on whose behalf the leg before has asked the user."""


class Asking:
    """What `RunContext` has of delegation."""

    parent: Parent | None
    children: Children | None
    waiting_child: Waiting | None
    message: Json

    async def delegate(  # by keyword
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Result:
        """Ask another agent, by its name or as an `Agent`, and return its answer.

        Another attempt of this leg that asks the same, or under the same `key`, meets the same
        child instead of starting a second one; the order does not matter. While the agent waits,
        its place on the worker is others'. With `relay` the child's progress is shown in this
        task's stream. The child ends within `timeout` seconds, and before this leg does; it may
        use `budget` tokens. Cancelled while it waits, the child is canceled.

        Raises:
            DelegationFailed: it failed, was rejected, canceled or too slow.
            DelegationRefused: a limit forbids it, or there is no such agent.
            LegOver: this leg has ended.
        """
        name = name_of(agent)
        asked = Question(name, message_of(name, message), relay=relay, budget=budget)
        parent, children = self._able(name)
        return await children.result(children.ask(asked.within(parent, timeout), key))

    def delegate_stream(  # by keyword
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Delegation:
        """Ask another agent and return its events, to be gone through with ``async for``.

        Everything else is as with `delegate`. The result is there behind the last event.

        Raises:
            DelegationRefused, LegOver: as `delegate`.
        """
        name = name_of(agent)
        asked = Question(name, message_of(name, message), relay=relay, budget=budget)
        parent, children = self._able(name)
        return Delegation(children, children.ask(asked.within(parent, timeout), key))

    async def answer(
        self,
        result: Result | None = None,
        message: str | Json | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
    ) -> Result:
        """Answer a child that waits for input, and return what it comes to.

        Without a `result` it is the child whose question the leg before has asked its user
        (`Result.ask_user`), without a `message` it is answered with this leg's.

        Raises:
            DelegationFailed, DelegationRefused, LegOver: as `delegate`; refused as ``not_waiting``
                where no child waits.
        """
        task, agent = (result.id, result.agent) if result else await self._find_waiting()
        said = message_of(agent, self.message if message is None else message)
        said = {key: value for key, value in said.items() if key not in {"taskId", "contextId"}}
        parent, children = self._able(agent)
        asked = Question(agent, said, relay=relay, into=task).within(parent, timeout)
        return await children.result(children.answer(asked))

    @property
    def tokens_left(self) -> int | None:
        """Tokens that this run may still use, its children included; None: nobody counts."""
        return self.parent.tokens_left if self.parent is not None else None

    async def _find_waiting(self) -> tuple[str, str]:
        try:
            found = await self.waiting_child() if self.waiting_child is not None else None
        except LogLost:
            found = None
        if found is None:
            raise DelegationRefused("", "not_waiting", "no child waits for an answer")
        return found

    def _able(self, agent: str) -> tuple[Parent, Children]:
        if self.parent is None or self.children is None:
            raise DelegationRefused(agent, "bad_request", "there is no fleet to ask")
        return self.parent, self.children
