"""ADK's services in the fleet's memory, and what operators are told of those in one process."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.errors import Misused, Retryable
from headrace.sdk.local_memory import LocalMemory

OF_USER: Any = {"app_name": "desk", "user_id": "ada@example.org"}
PLACE: Any = {**OF_USER, "session_id": "talk/1"}


@pytest.fixture
def ctx() -> RunContext:
    return DirectRun("any", "hi").context


def event(text: str, **delta: object) -> Any:  # noqa: ANN401  # ADK's
    from google.adk.events import Event, EventActions
    from google.genai import types

    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(state_delta=dict(delta)))


def said(session: Any) -> list[str]:  # noqa: ANN401  # ADK's
    return [each.content.parts[0].text for each in session.events]


def test_services_in_one_process_are_named() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.artifacts import InMemoryArtifactService
    from google.adk.memory import InMemoryMemoryService

    from headrace.adapters import adk_agent

    wrapped = LlmAgent(name="desk", model="gemini")
    served = adk_agent(
        wrapped,
        name="desk",
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
    )
    named = [caution.text.partition(" ")[0] for caution in served.card.cautions]
    assert named == ["InMemoryArtifactService", "InMemoryMemoryService"]
    assert adk_agent(wrapped, name="desk").card.cautions == []


async def test_a_session_has_its_events_and_what_they_made_of_its_state(ctx: RunContext) -> None:
    from headrace.adapters import FleetSessionService

    service = FleetSessionService(ctx)
    assert await service.get_session(**PLACE) is None
    made = await service.create_session(**PLACE, state={"n": 1, "user:name": "Ada", "temp:x": 1})
    assert made.state == {"n": 1, "user:name": "Ada"}
    await service.append_event(made, event("one", n=2, **{"app:open": True, "temp:y": 2}))
    await service.append_event(made, event("two", m=3))
    assert (said(made), made.state["temp:y"]) == (["one", "two"], 2)
    found = await service.get_session(**PLACE)
    assert found is not None
    state = {"n": 2, "m": 3, "user:name": "Ada", "app:open": True}
    assert (said(found), found.state) == (["one", "two"], state)
    assert found.events == made.events
    assert await service.get_user_state(**OF_USER) == {"name": "Ada"}


async def test_an_event_after_the_first_of_a_turn_reads_nothing(
    ctx: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.session_not_found_error import SessionNotFoundError

    from headrace.adapters import FleetSessionService

    service, used = FleetSessionService(ctx), list[str]()
    made = await service.create_session(**PLACE)
    await service.append_event(made, event("one"))
    for name in ("get", "read", "put"):
        monkeypatch.setattr(LocalMemory, name, noting(used, getattr(LocalMemory, name)))
    for text in ("two", "three"):
        await service.append_event(made, event(text))
    # `put` of the memory in this process looks at the revision by `get`.
    assert used == ["put", "get"] * 2
    other = FleetSessionService(replace(ctx, run=2))
    await other.delete_session(**PLACE)
    with pytest.raises(StaleSessionError):
        await service.append_event(made, event("late"))
    with pytest.raises(SessionNotFoundError):
        await service.append_event(made, event("later"))


def noting(used: list[str], method: Any) -> Any:  # noqa: ANN401  # a method
    """Return the method, which notes its uses."""

    async def noted(*given: Any) -> Any:  # noqa: ANN401  # the method's
        used.append(method.__name__)
        return await method(*given)

    return noted


async def test_sessions_are_listed_chosen_and_deleted(ctx: RunContext) -> None:
    from google.adk.sessions.base_session_service import GetSessionConfig

    from headrace.adapters import FleetSessionService

    service = FleetSessionService(ctx)
    made = await service.create_session(**PLACE)
    for text in ("one", "two", "three"):
        await service.append_event(made, event(text))
    await service.create_session(app_name="desk", user_id="eve")
    listed = await service.list_sessions(app_name="desk")
    mine = await service.list_sessions(**OF_USER)
    assert (len(listed.sessions), [one.id for one in mine.sessions]) == (2, ["talk/1"])
    assert mine.sessions[0].events == []
    for config, chosen in (
        (GetSessionConfig(num_recent_events=2), ["two", "three"]),
        (GetSessionConfig(num_recent_events=0), []),
        (GetSessionConfig(after_timestamp=made.events[2].timestamp), ["three"]),
    ):
        found = await service.get_session(**PLACE, config=config)
        assert said(found) == chosen
    await service.delete_session(**PLACE)
    assert await service.get_session(**PLACE) is None
    assert len((await service.list_sessions(app_name="desk")).sessions) == 1


async def test_a_session_that_its_run_has_changed_is_stale(ctx: RunContext) -> None:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.session_not_found_error import SessionNotFoundError

    from headrace.adapters import FleetSessionService

    service, other = FleetSessionService(ctx), FleetSessionService(replace(ctx, run=2))
    made = await service.create_session(**PLACE)
    same = await service.get_session(**PLACE)
    theirs = await other.get_session(**PLACE)
    assert same is not None
    assert theirs is not None
    await other.append_event(theirs, event("theirs"))
    await service.append_event(made, event("mine"))
    with pytest.raises(StaleSessionError, match="was changed by this run meanwhile; get it again"):
        await service.append_event(same, event("lost"))
    assert sorted(said(await service.get_session(**PLACE))) == ["mine", "theirs"]
    await service.delete_session(**PLACE)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(made, event("late"))


async def test_a_session_is_created_once_but_anew_by_the_next_attempt(ctx: RunContext) -> None:
    from google.adk.errors.already_exists_error import AlreadyExistsError

    from headrace.adapters import FleetSessionService

    service = FleetSessionService(ctx)
    made = await service.create_session(**PLACE, state={"n": 1})
    await service.append_event(made, event("lost"))
    with pytest.raises(AlreadyExistsError) as refused:
        await service.create_session(**PLACE)
    assert isinstance(refused.value, Retryable)
    anew = await FleetSessionService(replace(ctx, attempt=2)).create_session(**PLACE)
    assert (anew.events, anew.state) == ([], {})


async def test_artifacts_have_versions_and_those_of_a_user_are_the_owners(ctx: RunContext) -> None:
    from google.adk.errors.input_validation_error import InputValidationError
    from google.genai import types

    from headrace.adapters import FleetArtifactService

    service = FleetArtifactService(ctx)
    picture = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    name: Any = {**PLACE, "filename": "in/a b.png"}
    assert await service.load_artifact(**name) is None
    numbers = [
        await service.save_artifact(**name, artifact=types.Part(text="draft")),
        await service.save_artifact(**name, artifact=picture, custom_metadata={"by": "ada"}),
    ]
    await service.save_artifact(**PLACE, filename="user:face", artifact={"text": "round"})
    assert numbers == await service.list_versions(**name) == [0, 1]
    assert await service.load_artifact(**name) == picture
    assert await service.load_artifact(**name, version=0) == types.Part(text="draft")
    assert await service.load_artifact(**name, version=7) is None
    assert await service.list_artifact_keys(**PLACE) == ["in/a b.png", "user:face"]
    assert await service.list_artifact_keys(**OF_USER) == ["user:face"]
    described = await service.list_artifact_versions(**name)
    assert [one.mime_type for one in described] == ["text/plain", "image/png"]
    last = await service.get_artifact_version(**name)
    assert last is not None
    assert (last.version, last.custom_metadata) == (1, {"by": "ada"})
    with pytest.raises(InputValidationError, match="must be text, content"):
        await service.save_artifact(**name, artifact=types.Part())
    with pytest.raises(InputValidationError, match="needs a session_id"):
        await service.load_artifact(**OF_USER, filename="a.png")
    await service.delete_artifact(**name)
    assert await service.list_artifact_keys(**PLACE) == ["user:face"]
    gone = types.Part.from_bytes(data=b"", mime_type="application/octet-stream")
    await service.save_artifact(**name, artifact=gone)
    assert await service.load_artifact(**name) is None


async def test_ids_and_names_with_slashes_are_others(ctx: RunContext) -> None:
    from google.genai import types

    from headrace.adapters import FleetArtifactService, FleetMemoryService

    artifacts, memories = FleetArtifactService(ctx), FleetMemoryService(ctx)
    outer: Any = {"app_name": "desk", "user_id": "ada"}
    inner: Any = {"app_name": "desk", "user_id": "ada/talk"}
    await artifacts.save_artifact(
        **inner, session_id="1", filename="a.png", artifact=types.Part(text="draft")
    )
    assert await artifacts.list_artifact_keys(**outer, session_id="talk") == []
    assert await artifacts.list_versions(**outer, session_id="talk", filename="1") == []
    await memories.add_events_to_memory(**inner, events=[event("My cat is called Tom.")])
    assert (await memories.search_memory(**outer, query="cat")).memories == []
    assert len((await memories.search_memory(**inner, query="cat")).memories) == 1


async def test_ids_of_any_length_are_kept_apart(ctx: RunContext) -> None:
    from google.genai import types

    from headrace.adapters import FleetArtifactService, FleetMemoryService, FleetSessionService

    service, artifacts = FleetSessionService(ctx), FleetArtifactService(ctx)
    memories, app, place = FleetMemoryService(ctx), "ä" * 200, dict[str, Any]()
    for user in ("é" * 256, "é" * 255):
        place = {"app_name": app, "user_id": user, "session_id": "ß" * 256}
        assert (await service.list_sessions(app_name=app, user_id=user)).sessions == []
        made = await service.create_session(**place, state={"user:name": user})
        await service.append_event(made, event("My cat is called Tom."))
        await memories.add_session_to_memory(made)
        await artifacts.save_artifact(**place, filename="a.png", artifact=types.Part(text="x"))
    found = await service.get_session(**place)
    listed = await service.list_sessions(app_name=app, user_id=user)
    searched = await memories.search_memory(app_name=app, user_id=user, query="cat")
    assert found is not None
    assert (found.id, found.state) == ("ß" * 256, {"user:name": "é" * 255})
    assert (len(listed.sessions), len(searched.memories)) == (1, 1)
    assert await artifacts.list_artifact_keys(**place) == ["a.png"]


async def test_a_search_finds_the_events_with_most_of_its_words(ctx: RunContext) -> None:
    from headrace.adapters import FleetMemoryService, FleetSessionService

    sessions, service = FleetSessionService(ctx), FleetMemoryService(ctx)
    made = await sessions.create_session(**PLACE)
    for text in ("My cat is called Tom.", "My dog is old.", "Hello."):
        await sessions.append_event(made, event(text))
    await service.add_session_to_memory(made)
    await service.add_events_to_memory(**OF_USER, events=[event("A cat and a dog.")])
    found = await service.search_memory(**OF_USER, query="the DOG, my cat")
    texts = [(one.content.parts or [])[0].text for one in found.memories]
    assert set(texts[:1]) <= {"My cat is called Tom.", "My dog is old.", "A cat and a dog."}
    assert set(texts) == {"My cat is called Tom.", "My dog is old.", "A cat and a dog."}
    assert (await service.search_memory(**OF_USER, query="bird")).memories == []
    other = await service.search_memory(app_name="desk", user_id="eve", query="cat")
    assert other.memories == []


async def test_a_service_outside_of_a_run_says_what_it_needs() -> None:
    from headrace.adapters import FleetSessionService

    with pytest.raises(Misused, match="FleetSessionService works within an agent's run only; use"):
        await FleetSessionService().get_session(**PLACE)
