"""A list is answered once the range is applied as far as it asks."""

from typing import override

from headrace_task_state.projector.applied import WaitingLists, wanted_by_list
from headrace_task_state.store import Range
from tests.support.fake_bus import FakeBus, message

PLACE = Range(0)


class AnsweredBus(FakeBus):
    """Remembers to whom it replied."""

    def __init__(self) -> None:
        super().__init__()
        self.replied = list[str]()

    @override
    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        self.replied.append(subject)

    async def want(self, data: bytes, reply: str = "") -> None:
        subject = wanted_by_list(self, PLACE)
        await self.receivers[subject](message(subject, data, reply=reply))


async def test_lists_are_answered_as_far_as_the_range_is_applied() -> None:
    bus, wanted = AnsweredBus(), list[int]()
    lists = WaitingLists(bus, PLACE, wanted.append, 10)
    async with lists.served():
        await bus.want(b"10", "applied")
        assert (bus.replied, wanted) == (["applied"], [])
        await bus.want(b"12", "twelve")
        await bus.want(b"15", "fifteen")
        assert (bus.replied, wanted) == (["applied"], [12, 15])
        lists.position = 11
        await lists.answer()
        assert bus.replied == ["applied"]
        lists.position = 14
        await lists.answer()
        assert bus.replied == ["applied", "twelve"]
        await bus.want(b"14", "fourteen")
        lists.position = 15
        await lists.answer()
        assert bus.replied == ["applied", "twelve", "fourteen", "fifteen"]
        lists.position = 16
        await lists.answer()
        assert len(bus.replied) == 4
    assert not bus.receivers
