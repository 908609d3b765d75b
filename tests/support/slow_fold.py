"""Reference fold, simple and slow: keep the events that count, then apply A2A's rules."""

from headrace.model.events import DISCARDED_AFTER, GENERATION, RETRACTED, Json
from headrace.model.task import COMPLETED, SUBMITTED


def expected_task(log: list[Json]) -> Json:
    """Return the Task that a log's events make; slow, and written without the real fold."""
    slow = _SlowFold()
    for generation, event in _survivors(log):
        for kind, body in event.items():
            getattr(slow, kind)(generation, body)
    return slow.finish(len(log))


def _survivors(log: list[Json]) -> list[tuple[int, Json]]:
    kept: list[tuple[int, Json]] = []
    for generation, event in enumerate(log, 1):
        metadata = event.get("statusUpdate", {}).get("metadata", {})
        dropped = metadata.get(DISCARDED_AFTER, generation)
        kept = [(g, e) for g, e in kept if g <= dropped]
        kept.append((generation, event))
    return kept


class _SlowFold:
    def __init__(self) -> None:
        self._task: Json = {}
        self._metadata: Json = {}
        self._history: list[Json] = []
        self._names: list[object] = []
        self._artifacts: dict[str, Json] = {}
        self._run = 0
        self._said: tuple[object, Json] | None = None

    def task(self, generation: int, body: Json) -> None:
        self._task = {"id": body["id"], "contextId": body["contextId"], "status": body["status"]}
        self._metadata |= body["metadata"]
        for message in body["history"]:
            self._remember(object(), message)
        self._run = generation

    def statusUpdate(self, generation: int, body: Json) -> None:  # noqa: N802 - A2A's name
        self._move_message()
        self._task["status"] = body["status"]
        self._metadata |= {k: v for k, v in body["metadata"].items() if k[:9] != "headrace."}
        is_input = body["status"]["state"] == SUBMITTED
        self._run = generation if is_input else self._run
        if message := body["status"].get("message"):
            name = message.get("messageId")
            merges = name and not is_input
            self._said = ((self._run, name) if merges else object(), message)

    def artifactUpdate(self, _: int, body: Json) -> None:  # noqa: N802 - A2A's name
        artifact = body["artifact"]
        if body.get("append"):
            known = self._artifacts[artifact["artifactId"]]
            known["parts"] = known["parts"] + artifact["parts"]
        elif not body["metadata"].get(RETRACTED):
            self._artifacts[artifact["artifactId"]] = dict(artifact)

    def message(self, _: int, body: Json) -> None:
        self._move_message()
        answer = {k: v for k, v in body.items() if k != "metadata"}
        self._task["status"] = self._task["status"] | {"state": COMPLETED, "message": answer}

    def finish(self, generation: int) -> Json:
        task = self._task | {"metadata": self._metadata | {GENERATION: generation}}
        if self._history:
            task["history"] = [_merged(message) for message in self._history]
        if self._artifacts:
            task["artifacts"] = [_merged(artifact) for artifact in self._artifacts.values()]
        return task

    def _move_message(self) -> None:
        if self._said is not None:
            self._remember(*self._said)
            self._said = None

    def _remember(self, name: object, message: Json) -> None:
        if name in self._names:
            known = self._history[self._names.index(name)]
            known["parts"] = known["parts"] + message["parts"]
        else:
            self._names.append(name)
            self._history.append({**message})


def _merged(holder: Json) -> Json:
    parts: list[Json] = []
    for part in holder["parts"]:
        if parts and "text" in part and {**parts[-1], "text": ""} == {**part, "text": ""}:
            parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    return {**holder, "parts": parts}
