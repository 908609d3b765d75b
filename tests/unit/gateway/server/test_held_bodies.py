"""Bodies that a gateway holds are counted."""

import pytest

from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import HeldBodies

ANN, BOB = Caller(owner="ann"), Caller(owner="bob")


def test_an_owner_and_a_gateway_have_a_limit_each() -> None:
    bodies = HeldBodies(15, 10, 5)
    first = bodies.hold(ANN, 6)
    with pytest.raises(TooManyBytesOfOwner):
        bodies.hold(ANN, 5)
    second = bodies.hold(BOB, 9)
    with pytest.raises(TooManyBytes):
        second.resize(10)
    assert len(bodies) == 15
    first.release()
    first.release()
    assert len(bodies) == 9
    second.resize(10)
    second.release()
    assert len(bodies) == 0


def test_a_body_of_the_largest_size_is_taken_whatever_the_limits() -> None:
    bodies = HeldBodies(1, 1, 5)
    bodies.hold(ANN, 5).release()
    with pytest.raises(TooManyBytes):
        bodies.hold(ANN, 6)


def test_without_limits_everything_is_taken() -> None:
    assert len(HeldBodies(-1, -1, 5)) == 0
    bodies = HeldBodies(-1, -1, 5)
    bodies.hold(ANN, 10**9)
    assert len(bodies) == 10**9
