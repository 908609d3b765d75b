"""The fleet's signing key, for operators: rotate it, for all tenants."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.signing import rotate
from headrace_gateway.call import caller_of
from headrace_gateway.json_errors import CodedError, InputInvalid, check_body_type, json_object
from headrace_gateway.server.auth.caller import ANY_AGENT
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services

PATH = "/v1/signing-keys:rotate"

_OPERATION = "RotateSigningKey"


class KeysInFiles(CodedError):
    """The gateway's settings name the keys, so that another one would not be used."""

    code = "keys_in_files"
    status = HTTPStatus.CONFLICT


class SigningKeyRotation:
    """The endpoint."""

    def __init__(self, services: Services) -> None:
        """Rotate the key in the bucket of `services`."""
        self._services = services

    async def rotate(self, request: Request) -> ASGIApp:
        """Add a key; return its id, after how many seconds it signs, and which it replaces."""
        services, caller = self._services, caller_of(self._services, request)
        await services.access.check_operator(caller, _OPERATION)
        at_once = await self._at_once(request)
        if services.settings.signing_keys:
            raise KeysInFiles("HEADRACE_SIGNING_KEYS names the keys: add the new key's file there")
        await services.access.record(caller, ANY_AGENT, _OPERATION)
        rotation = await rotate(services.bus, at_once=at_once)
        return json_response(rotation.shown(), headers=NO_STORE)

    async def _at_once(self, request: Request) -> bool:
        check_body_type(request)
        content = await read_body(request, self._services.body_limits)
        body = json_object(content) if content else {}
        if unknown := ", ".join(body.keys() - {"atOnce"}):
            raise InputInvalid(f"{unknown}: unknown; the body may have atOnce")
        at_once = body.get("atOnce", False)
        if not isinstance(at_once, bool):
            raise InputInvalid("atOnce: must be true or false")
        return at_once
