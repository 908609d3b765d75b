"""The room for one agent's runs: a place of the agent's own, and one of the worker's."""

from dataclasses import dataclass

from headrace_worker.slots import Slots, Turn


@dataclass(frozen=True, slots=True)
class Room:
    """What all lanes of one agent share."""

    slots: Slots
    """The worker's places, shared with its other agents."""
    own: Slots
    """Those of the agent."""

    @property
    def scarce(self) -> bool:
        """Whether a place that stands empty is one that another lane has to wait for."""
        return self.slots.scarce or self.own.scarce

    async def take(self, turn: Turn, own_turn: Turn) -> None:
        """Take a place of both, when it is one's turn."""
        await self.own.take(own_turn)
        try:
            await self.slots.take(turn)
        except BaseException:
            self.own.give_back(1)
            raise

    def take_more(self, wanted: int) -> int:
        """Take up to `wanted` places that are free and nobody waits for; return how many."""
        own = self.own.take_more(wanted)
        granted = self.slots.take_more(own)
        self.own.give_back(own - granted)
        return granted

    def give_back(self, count: int) -> None:
        """Free `count` places of both."""
        self.own.give_back(count)
        self.slots.give_back(count)

    def enter(self) -> None:
        """Count one lane more."""
        self.own.users += 1
        self.slots.users += 1

    def leave(self) -> None:
        """Count one lane less."""
        self.own.users -= 1
        self.slots.users -= 1
