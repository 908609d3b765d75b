"""Draws a recording of a stream: a row for the client, and one for each process."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import attrgetter

from tests.pictures.failover import Recording

_LEFT, _RIGHT, _TOP, _HEIGHT_OF_ROW = 120, 880, 74, 46
_WIDTH, _HEIGHT = 920, 352
_ROWS = ("client", "gateway 1", "gateway 2", "worker 1", "worker 2")
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.small { font-size: 11px; fill: #57606a; }
.row { stroke: #d0d7de; stroke-width: 1; }
.at-work { stroke: #0969da; stroke-width: 10; stroke-linecap: butt; }
.token { stroke: #1a7f37; stroke-width: 2; }
.killed { stroke: #cf222e; stroke-width: 3; }
.kill { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 3 3; }
.red { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #8d96a0; }
  .row { stroke: #3d444d; }
  .at-work { stroke: #4493f8; }
  .token { stroke: #3fb950; }
  .killed, .kill { stroke: #f85149; }
  .red { fill: #f85149; }
}
"""


def drawn(recording: Recording) -> str:
    """Return the picture as SVG; it reads well on a light and on a dark page."""
    return "\n".join([*_Drawing(recording).lines(), ""])


class _Drawing:
    def __init__(self, recording: Recording) -> None:
        self._recording, self._events = recording, recording.received
        self._seconds = self._events[-1].at

    def lines(self) -> Iterator[str]:
        size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<title>{self._summary()}</title>"
        yield f"<style>{_STYLE}</style>"
        yield f'<text class="title" x="{_LEFT}" y="24">{self._summary()}</text>'
        yield from self._rows()
        yield from self._tokens()
        yield from self._kill(self._recording.gateway_killed, "gateway", 1)
        yield from self._kill(self._recording.worker_killed, "worker", 3)
        yield from self._axis()
        yield "</svg>"

    def _summary(self) -> str:
        return f"One stream: {len(self._events)} events, each received once, in order"

    def _rows(self) -> Iterator[str]:
        for number, name in enumerate(_ROWS):
            y = _y(number)
            yield f'<text x="16" y="{y + 4}">{name}</text>'
            yield f'<line class="row" x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}"/>'
        for role, first in (("gateway", 1), ("worker", 3)):
            for index, events in groupby(self._events, attrgetter(role)):
                times = [event.at for event in events]
                yield self._at_work(times[0], times[-1], first + index)

    def _at_work(self, begin: float, end: float, row: int) -> str:
        y = _y(row)
        return (
            f'<line class="at-work" x1="{self._x(begin)}" y1="{y}" x2="{self._x(end)}" y2="{y}"/>'
        )

    def _tokens(self) -> Iterator[str]:
        y = _y(0)
        marks = "".join(f"M{self._x(event.at)} {y - 8}v16" for event in self._events)
        yield f'<path class="token" d="{marks}"/>'

    def _kill(self, at: float, role: str, first: int) -> Iterator[str]:
        before = [event for event in self._events if event.at <= at][-1]
        after = next(
            event for event in self._events if getattr(event, role) != getattr(before, role)
        )
        row, then = first + getattr(before, role), first + getattr(after, role)
        x, y = self._x(at), _y(row)
        yield f'<path class="kill" d="M{x} {_TOP - 14}V{_y(len(_ROWS)) - 22}"/>'
        yield f'<path class="killed" d="M{x - 7} {y - 7}l14 14m0 -14l-14 14"/>'
        yield _text("red", x + 6, _TOP - 18, f"kill -9 {_ROWS[row]}")
        pause = f"{_ROWS[then]} goes on after {_seconds(after.at - at)}"
        yield _text("small", x + 14, y - 12, pause)

    def _axis(self) -> Iterator[str]:
        y = _y(len(_ROWS)) - 4
        for second in range(int(self._seconds) + 1):
            label = f"{second} s" if second else "0"
            yield _text("small", self._x(second) - 6, y, label)

    def _x(self, at: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * at / self._seconds, 1)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{round(x, 1)}" y="{y}">{text}</text>'


def _y(row: int) -> int:
    return _TOP + 12 + row * _HEIGHT_OF_ROW


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"


def gaps(recording: Recording) -> list[int]:
    """Return the steps from each event to the next; an unbroken stream has nothing but 1."""
    numbers = [event.generation for event in recording.received]
    return [later - earlier for earlier, later in pairwise(numbers)]
