"""Waiting for what nothing tells of."""

from collections.abc import Callable

from tests.support.waiting import eventually


async def soon(holds: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    """Return when `holds()` does; the bound is well above an election."""

    async def held() -> bool:
        return holds()

    await eventually(held, what, timeout)
