"""Records the runs on a stack of its own, and writes the pictures to docs/pictures."""

import asyncio
import tempfile
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.pictures import console, failover, request, sequence, sessions, timeline
from tests.support.stack import Stack

PICTURES = ROOT / "docs" / "pictures"


def main() -> None:
    """Record and draw everything."""
    PICTURES.mkdir(exist_ok=True)
    environment = {"PYTHONPATH": str(ROOT)}
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(
            Path(folder),
            gateways=2,
            workers=2,
            triggers=1,
            agents="tests.pictures.agents:agents",
            environment=environment,
        ) as stack,
    ):
        (PICTURES / "send.svg").write_text(
            sessions.drawn("headrace send --agent shop nails", sessions.send(stack))
        )
        (PICTURES / "chat.svg").write_text(
            sessions.drawn("headrace chat --agent shop", sessions.chat(stack))
        )
        sent = asyncio.run(request.record(stack, request.Caller.send))
        resumed = asyncio.run(request.record(stack, request.Caller.resume))
        recording = asyncio.run(failover.record(stack))
        nats_url = stack.dev()["nats_url"]
        shown = asyncio.run(console.pictures(stack.gateways[1], nats_url, Path(folder)))
    for name, picture in shown.items():
        (PICTURES / f"{name}.png").write_bytes(picture)
    for name, steps in {"request": sent, "resume": resumed}.items():
        request.save(steps, PICTURES / f"{name}.json")
        (PICTURES / f"{name}.svg").write_text(sequence.of(name, steps))
    recording.save(PICTURES / "failover.json")
    (PICTURES / "failover.svg").write_text(timeline.drawn(recording))


if __name__ == "__main__":
    main()
