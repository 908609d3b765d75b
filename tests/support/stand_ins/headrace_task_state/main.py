"""A stub task state that stores nothing."""

import signal


def run() -> int:
    signal.pause()
    return 0
