"""Ctrl-C ends a command's wait, whenever it comes."""

import asyncio
import signal
import threading

import pytest

from headrace_cli.interrupts import run


def test_a_signal_that_does_not_end_the_wait_for_sockets_wakes_the_loop() -> None:
    has_waited = False

    def wait_is_over() -> None:
        nonlocal has_waited
        has_waited = True

    def interrupt() -> None:
        # Nor does one that comes just before the wait. This one is as late in each run.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(20, wait_is_over)
        threading.Timer(0.2, interrupt).start()
        await asyncio.Event().wait()

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert not has_waited
    assert signal.set_wakeup_fd(-1) == -1


def test_in_another_thread_a_command_runs_without_signals() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    found = list[int]()
    thread = threading.Thread(target=lambda: found.append(run(work())))
    thread.start()
    thread.join()
    assert found == [7]
