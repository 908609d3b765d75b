"""Print a task's events in the terminal, and exit with the code of its state."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.model.events import Json
from headrace.model.task import RUN_ENDED
from headrace.model.task_report import ResultFile
from headrace_cli.display import PlainDisplay, display_of_terminal
from headrace_cli.tables import one_line
from headrace_cli.transcript import Transcript

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask, TaskStream

EXIT_CODES = {
    "TASK_STATE_FAILED": 3,
    "TASK_STATE_REJECTED": 4,
    "TASK_STATE_CANCELED": 5,
    "TASK_STATE_INPUT_REQUIRED": 6,
}
"""Exit codes of `send` and `tail` by the state in which they leave the task; 0: it is COMPLETED.
1 is a request that failed, 2 a wrong option."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended."""

_LONGEST_NAME = 200
"""Bytes; file systems take 255, and a number may be added."""


class StreamOutput:
    """Shows events as they arrive.

    Where stdout is no terminal, it has the answer alone, and stderr everything else. With
    `as_json`, each event is one line on stdout.
    """

    def __init__(
        self, url: str, *, as_json: bool = False, save: Path | None = None, hints: bool = True
    ) -> None:
        """Save the files in results in the folder `save`, if it is given.

        `url`: the gateway.

        `hints`: whether to show the command that answers a question.
        """
        self._as_json, self._save = as_json, save
        display = PlainDisplay() if as_json else display_of_terminal()
        self._transcript = Transcript(display, url, hints)

    @property
    def exit_code(self) -> int:
        """The exit code for the task's state."""
        return EXIT_CODES.get(self._transcript.state, 0)

    def show(self, event: Json) -> None:
        """Show one StreamResponse."""
        if self._as_json:
            click.echo(json.dumps(event))
            self._transcript.note(event)
        else:
            self._transcript.show(event)

    async def follow(self, client: "Client", stream: "TaskStream") -> None:
        """Show a stream to its end, and save its files.

        Raises:
            ClientError: the gateway refused, or did not answer for long.
        """
        async with stream:
            async for event in stream:
                self.show(event.json)
        is_known = self._transcript.state in RUN_ENDED or not stream.task
        if not is_known or (self._save and stream.task):
            found = await client.get(stream.agent, stream.task)
            if not is_known:  # It had ended when the connection came back.
                status = found.task.get("status", {})
                self.show({"statusUpdate": {"taskId": stream.task, "status": status}})
            await self._save_files(found)
        self._transcript.end()

    async def show_ended(self, task: "ClientTask") -> None:
        """Show a task that has ended, and save its files.

        Raises:
            ClientError: a download failed.
        """
        self.show({"task": task.task})
        self._transcript.end()
        await self._save_files(task)

    def show_feedback(self, feedback: Json | None) -> None:
        """Show what its owner thinks of the task; None: it has said nothing."""
        if feedback is None:
            return
        if self._as_json:
            click.echo(json.dumps({"feedback": feedback}))
            return
        comment = f": {feedback['comment']}" if feedback["comment"] else ""
        self._transcript.remark(f"feedback {feedback['rating']}{comment}")

    async def _save_files(self, task: "ClientTask") -> None:
        if self._save:
            for path in await save_files(await task.files(), self._save):
                click.echo(one_line(f"saved {path}"), err=True)

    def show_how_to_answer(self, task: str) -> None:
        """Say which command answers the question of `task`."""
        self._transcript.show_how_to_answer(task)

    def remark(self, line: str) -> None:
        """Show a line about the task."""
        self._transcript.remark(line)

    def end(self) -> None:
        """End the last line."""
        self._transcript.end()


async def save_files(files: Iterable[ResultFile], folder: Path) -> list[Path]:
    """Save `files` in `folder`, under their own names as far as they are names; return the paths.

    Names that are too long are cut. Existing files are never overwritten: a number is added to the
    name.

    Raises:
        OSError: a file can't be written.
    """
    return [
        await asyncio.to_thread(_save, file.name, file.content, folder)
        for file in files
        if file.content is not None
    ]


def _save(name: str, content: bytes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # The name comes from an agent: it must not lead out of the folder, or hide.
    plain = Path(one_line(name).replace("\\", "/").replace("\0", "")).name.lstrip(".") or "file"
    for path in _free(folder, _cut(Path(plain))):
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("there is always another number")


def _cut(name: Path) -> Path:
    suffix = name.suffix.encode()
    if len(suffix) > _LONGEST_NAME // 2:
        suffix = b""
    stem = name.name.encode().removesuffix(suffix)[: _LONGEST_NAME - len(suffix)]
    return Path(stem.decode(errors="ignore") + suffix.decode())


def _free(folder: Path, name: Path) -> Iterable[Path]:
    yield folder / name
    number = 1
    while True:
        yield folder / f"{name.stem}-{number}{name.suffix}"
        number += 1
