"""Telling a client that reads slowly from one that stopped reading."""

from headrace_gateway.server.client_pace import Backlog, SlowClient


class FakeBacklog(Backlog):
    """A client that takes what a test says."""

    def __init__(self) -> None:
        self.waiting = self.looks = 0
        self.dropped = False

    def buffered(self) -> int:
        return self.waiting

    def size(self) -> int:
        self.looks += 1
        return self.waiting

    def drop(self) -> None:
        self.dropped = True


class Client:
    """A stall and the connection that it judges."""

    def __init__(self) -> None:
        self.backlog = FakeBacklog()
        self.stall = SlowClient(self.backlog)
        self.now = 0.0

    def after(self, seconds: float, *, written: int = 0, taken: int = 0) -> float:
        """Return for how long it has stalled, so long after the last look."""
        self.stall.written += written
        self.backlog.waiting += written - taken
        self.now += seconds
        return self.stall.seconds(self.now, writing=False)


def test_a_client_for_whom_nothing_waits_does_not_stall() -> None:
    client = Client()
    assert [client.after(100) for _ in range(3)] == [0, 0, 0]


def test_the_kernel_is_not_queried_about_a_client_that_has_received_everything() -> None:
    client = Client()
    client.after(1, written=1000)
    client.after(1, taken=1000)
    looks = client.backlog.looks
    assert [client.after(1) for _ in range(3)] == [0, 0, 0]
    assert client.backlog.looks == looks
    assert [client.after(1, written=10), client.after(1)] == [0, 1]


def test_a_client_that_takes_nothing_stalls_from_the_first_look_on() -> None:
    client = Client()
    assert client.after(1, written=1000) == 0
    assert [client.after(1) for _ in range(3)] == [1, 2, 3]


def test_what_is_written_on_top_does_not_hide_it() -> None:
    client = Client()
    client.after(1, written=1000)
    assert [client.after(1, written=20) for _ in range(3)] == [1, 2, 3]


def test_a_client_that_takes_a_little_does_not_stall() -> None:
    client = Client()
    client.after(1, written=1_000_000)
    assert [client.after(50, taken=100) for _ in range(3)] == [0, 0, 0]


def test_nor_does_one_that_takes_less_than_comes() -> None:
    client = Client()
    client.after(1, written=1_000_000)
    assert [client.after(50, written=500, taken=100) for _ in range(3)] == [0, 0, 0]


def test_one_that_takes_something_again_begins_anew() -> None:
    client = Client()
    client.after(1, written=1000)
    assert client.after(30) == 30
    assert client.after(30, taken=1) == 0
    assert client.after(30) == 30
    assert client.after(1, taken=999) == 0
    assert client.after(1000) == 0


def test_without_a_connection_to_look_at_a_long_write_counts() -> None:
    stall = SlowClient(None)
    assert [stall.seconds(now, writing=True) for now in (0.0, 10.0, 20.0)] == [0, 10, 20]
    stall.written += 100
    assert stall.seconds(30.0, writing=True) == 0
    assert stall.seconds(40.0, writing=False) == 0
    assert not stall.drop()


def test_a_connection_is_dropped() -> None:
    client = Client()
    assert client.stall.drop()
    assert client.backlog.dropped
