"""How Python's garbage collector goes about a service: seldom, and past what it is made of.

A service is some 100,000 objects, nearly all of them modules, models and routes that stay. Python
would go through them all again and again, and through the young ones after every few requests; both
together were a tenth of what a short run costs.
"""

import gc

_YOUNG = 20_000
"""Objects that come to be, beyond those that go, before the young ones are looked through: a few
megabytes. What is in no cycle, as nearly everything here, goes without."""

_OLDER = 20
"""Such looks, before those who outlived one are looked through as well."""


def settle() -> None:
    """Leave what is there by now out of later collections; for a service that has just begun.

    Calling it again lets what has become garbage since go.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
