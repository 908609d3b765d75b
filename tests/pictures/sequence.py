"""Draws the steps between the parties of a fleet as a sequence diagram."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tests.pictures.watch import Step

_LEFT, _RIGHT, _TOP, _HEIGHT_OF_ROW, _BOTTOM = 130, 850, 64, 26, 20
_WIDTH = 920
_EVENT = re.compile(r"event (\d+)")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.party { font-size: 13px; font-weight: 600; text-anchor: middle; }
.at { fill: #57606a; text-anchor: end; }
.what { text-anchor: middle; paint-order: stroke; stroke: #ffffff; stroke-width: 2px; }
.life { stroke: #d0d7de; stroke-width: 1; }
.arrow { stroke: #0969da; stroke-width: 1.5; fill: none; }
.head { fill: #0969da; }
.client .arrow { stroke: #1a7f37; }
.client .head { fill: #1a7f37; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .at { fill: #8d96a0; }
  .what { stroke: #0d1117; }
  .life { stroke: #3d444d; }
  .arrow { stroke: #4493f8; }
  .head { fill: #4493f8; }
  .client .arrow { stroke: #3fb950; }
  .client .head { fill: #3fb950; }
}
"""


_SHOWN = {
    "request": (
        "A request: every event is in the log before the client gets it",
        ("client", "gateway 1", "NATS", "worker", "task state"),
    ),
    "resume": (
        "A resume: the client goes on at another gateway, after its last event",
        ("client", "gateway 1", "gateway 2", "NATS", "worker"),
    ),
}
"""Title and parties of the pictures."""


def of(name: str, steps: list[Step]) -> str:
    """Return the picture `name` of these steps, without those of other parties."""
    title, parties = _SHOWN[name]
    return drawn(
        title, parties, [step for step in steps if {step.sender, step.receiver} <= {*parties}]
    )


def drawn(title: str, parties: tuple[str, ...], steps: list[Step]) -> str:
    """Return the picture as SVG; it reads well on a light and on a dark page."""
    return "\n".join([*_Diagram(title, parties, shortened(steps)).lines(), ""])


def shortened(steps: list[Step]) -> list[Step]:
    """Return the steps with adjacent ones of the same two parties as one."""
    groups = groupby(steps, key=lambda step: (step.sender, step.receiver))
    return [_together(list(group)) for _, group in groups]


def _together(steps: list[Step]) -> Step:
    first, last = steps[0], steps[-1]
    if len(steps) == 1:
        return first
    through = last.what.rpartition(" ")[2]
    return replace(first, what=_EVENT.sub(rf"events \1 to {through}", first.what))


class _Diagram:
    def __init__(self, title: str, parties: tuple[str, ...], steps: list[Step]) -> None:
        self._title, self._parties, self._steps = title, parties, steps
        self._bottom = _TOP + 20 + len(steps) * _HEIGHT_OF_ROW

    def lines(self) -> Iterator[str]:
        height = self._bottom + _BOTTOM
        size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<title>{self._title}</title>"
        yield f"<style>{_STYLE}</style>"
        yield f'<text class="title" x="20" y="24">{self._title}</text>'
        for party in self._parties:
            x = self._x(party)
            yield f'<text class="party" x="{x}" y="{_TOP - 8}">{party}</text>'
            yield f'<line class="life" x1="{x}" y1="{_TOP}" x2="{x}" y2="{self._bottom}"/>'
        for row, step in enumerate(self._steps):
            yield from self._step(step, _TOP + 24 + row * _HEIGHT_OF_ROW)
        yield "</svg>"

    def _step(self, step: Step, y: int) -> Iterator[str]:
        begin, end = self._x(step.sender), self._x(step.receiver)
        side = 1 if end > begin else -1
        kind = "client" if "client" in (step.sender, step.receiver) else "bus"
        yield f'<g class="{kind}">'
        yield f'<text class="at" x="70" y="{y + 4}">{step.at:.1f} ms</text>'
        yield f'<path class="arrow" d="M{begin} {y}H{end - side * 6}"/>'
        yield f'<path class="head" d="M{end} {y}l{-side * 8} -4v8z"/>'
        yield f'<text class="what" x="{(begin + end) / 2}" y="{y - 6}">{step.what}</text>'
        yield "</g>"

    def _x(self, party: str) -> float:
        step = (_RIGHT - _LEFT) / (len(self._parties) - 1)
        return _LEFT + step * self._parties.index(party)
