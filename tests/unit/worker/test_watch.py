"""What a worker logs after its event loop has stood still."""

import asyncio
import logging
import time
from unittest.mock import Mock

import pytest

from headrace_worker.watch import Watch


async def test_a_loop_that_an_agent_blocked_is_not_called_a_suspended_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Watch can't tell a blocked loop from a suspended process, and checks the logs after both."""
    caplog.set_level(logging.WARNING)
    rule = Mock()
    checked = asyncio.Event()
    rule.check_all.side_effect = checked.set
    watching = asyncio.create_task(Watch(Mock(), rule, list).run())
    await asyncio.sleep(0)
    time.sleep(2.2)  # noqa: ASYNC251 - blocks the loop, as an agent may
    await asyncio.wait_for(checked.wait(), 30)
    watching.cancel()
    assert "the event loop did not run for" in caplog.text
    assert "suspended" not in caplog.text
