"""Task state's requests, as FastStream describes them."""

from typing import cast

from faststream.nats import NatsBroker
from faststream.specification import AsyncAPI

from headrace.model.events import Json
from headrace.model.subjects import Subjects
from headrace_task_state.requests.answers import Answers
from headrace_task_state.requests.pieces import AnswerPieces
from headrace_task_state.requests.questions import Questions


def described(title: str, version: str, description: str) -> Json:
    """Return FastStream's AsyncAPI 3.0 document of the requests that task state answers."""
    subjects = Subjects("{prefix}")
    pieces = AnswerPieces(subjects.state("more.{replica}"), 0)
    # This broker receives no requests: it never connects.
    questions = Questions(subjects, cast("Answers", None), pieces)
    broker = NatsBroker(logger=None)
    questions.include_in(broker)
    broker.include_router(questions.lists())
    specification = AsyncAPI(
        broker,
        title=title,
        version=version,
        description=description,
        license={"name": "Apache-2.0"},
    )
    document: Json = specification.to_specification().to_jsonable()
    # FastStream does not order subscribers.
    for listed in (document, document["components"]):
        for name, part in listed.items():
            if name in {"channels", "operations", "messages", "schemas"}:
                listed[name] = dict(sorted(part.items()))
    # The address of NATS differs by fleet.
    for part in (document, *document["channels"].values()):
        part.pop("servers")
    return document
