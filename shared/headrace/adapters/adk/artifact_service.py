"""ADK's artifact service in the fleet's memory."""

from typing import Any, override
from urllib.parse import unquote

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from headrace.adapters.adk.places import place_of
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.memory import MemoryChanged, prefix_of
from headrace.sdk.active_run import required_run
from headrace.sdk.context import RunContext
from headrace.sdk.memory import Memory

_OF_USER = "user:"
_REMOVED = types.Blob(mime_type="application/octet-stream", data=b"")
"""What ADK saves in place of an artifact that did not exist when a session is rewound to there."""


class FleetArtifactService(BaseArtifactService):
    """Keeps ADK's artifacts in the conversation's memory, those of a user in the owner's.

    An artifact has at most about 12 MB. An attempt that saves one again saves a further version.
    """

    def __init__(self, ctx: RunContext | None = None) -> None:
        """Use the memory of the run of `ctx`. None: of the run that calls."""
        self._given = ctx

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        part = ensure_part(artifact)
        place = self._place(app_name, user_id, filename, session_id)
        while True:
            version = await place.next_version()
            described = ArtifactVersion(
                version=version,
                canonical_uri=f"headrace://{place.prefix}{version}",
                custom_metadata=custom_metadata or {},
                mime_type=_media_type(part),
            )
            if await place.is_saved(version, part, described):
                return version

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        place = self._place(app_name, user_id, filename, session_id)
        found = await place.saved(version)
        if found is None:
            return None
        part = types.Part.model_validate_json(json_text.encode(found["part"]))
        return None if part.inline_data == _REMOVED else part

    @override
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        places = [self._place(app_name, user_id, _OF_USER, None)]
        if session_id is not None:
            places.append(self._place(app_name, user_id, "", session_id))
        return sorted({name for place in places for name in await place.names()})

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        place = self._place(app_name, user_id, filename, session_id)
        for key in await place.memory.keys(place.prefix):
            await place.memory.delete(key)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        return await self._place(app_name, user_id, filename, session_id).versions()

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        place = self._place(app_name, user_id, filename, session_id)
        found = [await place.saved(version) for version in await place.versions()]
        return [ArtifactVersion.model_validate(one["version"]) for one in found if one]

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        found = await self._place(app_name, user_id, filename, session_id).saved(version)
        return None if found is None else ArtifactVersion.model_validate(found["version"])

    def _place(self, app: str, user: str, filename: str, session: str | None) -> "_SavedVersions":
        ctx = self._given or required_run(type(self).__name__)
        if filename.startswith(_OF_USER):
            return _SavedVersions(ctx.memory.of_owner, (app, user), filename)
        if session is None:
            raise InputValidationError(f"artifact {filename!r} of a session needs a session_id")
        return _SavedVersions(ctx.memory, (app, user, session), filename)


class _SavedVersions:
    """Where the versions of one artifact are."""

    def __init__(self, memory: Memory, whose: tuple[str, ...], name: str) -> None:
        self.memory, self._folder = memory, place_of("adk-artifacts", *whose)
        self.prefix = self._folder + prefix_of(name)

    async def names(self) -> set[str]:
        """Return the names of all artifacts beside it."""
        keys = await self.memory.keys(self._folder)
        return {unquote(key.removeprefix(self._folder).partition("/")[0]) for key in keys}

    async def versions(self) -> list[int]:
        """Return the numbers of the versions, from 0."""
        keys = await self.memory.keys(self.prefix)
        return [int(key.removeprefix(self.prefix)) for key in keys]

    async def next_version(self) -> int:
        return max(await self.versions(), default=-1) + 1

    async def is_saved(self, version: int, part: types.Part, described: ArtifactVersion) -> bool:
        """Save a version; False: another run was first."""
        value = {
            "part": part.model_dump(mode="json", exclude_none=True),
            "version": described.model_dump(mode="json"),
        }
        try:
            await self.memory.put(self._key(version), json_text.encode(value), revision=0)
        except MemoryChanged:
            return False
        return True

    async def saved(self, version: int | None) -> Json | None:
        """Return what was saved as a version; None: as the last one."""
        wanted = await self.next_version() - 1 if version is None else version
        found: Json | None = await self.memory.load(self._key(wanted)) if wanted >= 0 else None
        return found

    def _key(self, version: int) -> str:
        return f"{self.prefix}{version:09}"


def _media_type(part: types.Part) -> str | None:
    """Return the media type of an artifact.

    Raises:
        InputValidationError: It is neither text nor a file, or refers to another artifact.
    """
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return "text/plain"
    if part.file_data is not None and not (part.file_data.file_uri or "").startswith("artifact:"):
        return part.file_data.mime_type
    raise InputValidationError(
        "an artifact must be text, content (inline_data) or a file's address (file_data); save the"
        " content of an artifact that another one refers to"
    )
