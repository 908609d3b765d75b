"""The check of a server's clock."""

from headrace.metrics import MAX_CLOCK_OFFSET
from headrace_cli.doctor.diagnosis import Diagnosis, ok, problem


def check_clock(server: str, before: float, there: float, after: float) -> Diagnosis:
    """Return what is found about a server whose clock showed `there`.

    `before` and `after` are this machine's clock before and after the request. All are seconds
    since 1970.
    """
    off = there - after if there > after else min(there - before, 0.0)
    if abs(off) > MAX_CLOCK_OFFSET:
        return problem(
            server,
            f"its clock is {off:+.1f} s from this machine's",
            "synchronize both with NTP: deadlines are wrong by as much",
        )
    return ok(server, "its clock is synchronized with this machine's")
