"""What is left of a connection's end that takes too long."""

import asyncio
import gc

from headrace.jetstream.connection import _at_most


async def test_an_end_that_fails_after_it_was_given_up_is_not_reported_as_unretrieved() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    given_up = asyncio.Event()

    async def drain() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.set()
            raise OSError("the connection is gone") from None

    await _at_most(0.0, drain())
    await asyncio.wait_for(given_up.wait(), 60)
    await asyncio.sleep(0)
    gc.collect()
    assert reported == []
