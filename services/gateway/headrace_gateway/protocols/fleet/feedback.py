"""Feedback on an ended task: its owner gives it, whoever may read the task's log reads it."""

from typing import cast

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.tasks.feedback import (
    LONGEST_COMMENT,
    RATINGS,
    Feedback,
    Rating,
    feedback_on,
    give_feedback,
)
from headrace_gateway.call import call_of
from headrace_gateway.json_errors import InputInvalid, read_object
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import query_of, task_key

PATH = "/tasks/{task}/feedback"
"""Path after an agent's path."""


class TaskFeedback:
    """The endpoints."""

    def __init__(self, services: Services) -> None:
        """Read and write logs with `services`."""
        self._services = services

    async def read(self, request: Request) -> ASGIApp:
        """Return the current feedback on the task, or null."""
        services, task = self._services, request.path_params["task"]
        call = await call_of(services, request, "SubscribeToTask", task=task)
        key = task_key(services.settings, call.caller, call.agent, task)
        query = query_of(call.caller, key, "SubscribeToTask", history_length=0)
        await services.state.get(query)
        return _answer(task, await feedback_on(services.bus, key))

    async def put(self, request: Request) -> ASGIApp:
        """Store the owner's feedback in place of its earlier one."""
        services, task = self._services, request.path_params["task"]
        call = await call_of(services, request, "SendMessage", task=task)
        key = task_key(services.settings, call.caller, call.agent, task)
        feedback = _feedback_of(await read_object(request, services.body_limits))
        await services.state.get(query_of(call.caller, key, history_length=0))
        stored = await give_feedback(services.bus, key, feedback)
        return _answer(task, stored if stored.rating else None)


def _answer(task: str, feedback: Feedback | None) -> ASGIApp:
    shown = None if feedback is None else feedback.shown()
    return json_response({"task": task, "feedback": shown}, headers=NO_STORE)


def _feedback_of(body: dict[str, object]) -> Feedback:
    """Return the feedback in a request's body.

    Raises:
        InputInvalid: A member breaks its rule.
    """
    if unknown := ", ".join(sorted(body.keys() - {"rating", "comment"})):
        raise InputInvalid(f"{unknown}: unknown; the body may have rating and comment")
    if "rating" not in body:
        raise InputInvalid(f"rating: must be {' or '.join(RATINGS)}, or null to withdraw it")
    rating, comment = body["rating"], body.get("comment", "")
    if rating is not None and rating not in RATINGS:
        raise InputInvalid(f"rating: must be {' or '.join(RATINGS)}, or null to withdraw it")
    if not isinstance(comment, str) or len(comment) > LONGEST_COMMENT:
        raise InputInvalid(f"comment: must be a text of at most {LONGEST_COMMENT} characters")
    if rating is None and comment:
        raise InputInvalid("comment: must be empty without a rating")
    return Feedback(cast("Rating | None", rating), comment)
