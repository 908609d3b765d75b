"""Signed URLs of files: whoever has one may download its file for some minutes.

A page can't send credentials with an image. It asks for a signed URL with its credentials instead,
and the browser loads that without any. The URL contains what it permits, sealed with a key that all
gateways have: each can check it, none stores it, and nobody else can make or read it.
"""

from collections.abc import Callable

from starlette.types import Scope

from headrace.model.messages import BusMessage
from headrace.signing import SigningKeys
from headrace_gateway.refusals import SignatureRefused
from headrace_gateway.server.auth.caller import Caller

LIFETIME = 300
"""Seconds for which a signed URL can be used. A page loads an image at once, or asks again; the
time also allows for slow pages and for a click."""

READ = "GetTask"
"""The operation that a download is, for permissions, rates and the audit log."""

_BASE = "/v1/signed-files/"
SIGNED_PATH = f"{_BASE}{{sealed}}"


class SignedFile(BusMessage):
    """What a signed URL permits: that a caller reads one file."""

    tenant: str
    owner: str
    """Who asked for the URL; both as subject tokens."""
    operates: bool
    """Whether it did as an operator, who may read other owners' files."""
    agent: str
    task: str
    name: str
    """The file's, within its task."""

    @property
    def caller(self) -> Caller:
        """Who asked for the URL, with the permission to read the file's task and no other one."""
        named = self.tenant, self.owner, self.agent
        return Caller.by_signature(*named, READ, operates=self.operates)


class SignedUrls:
    """Makes and checks signed URLs."""

    def __init__(self, keys: SigningKeys, now: Callable[[], float]) -> None:
        """Use the fleet's `keys`, and a clock that is the same for all gateways."""
        self._keys, self._now = keys, now

    async def path_of(self, file: SignedFile) -> str:
        """Return the path of a new signed URL."""
        await self._keys.ready()
        return _BASE + self._keys.current.seal(file.encode(), self._now())

    async def file_of(self, sealed: str) -> SignedFile:
        """Return what the last part of such a path permits.

        Raises:
            SignatureRefused: no gateway has made it, or too long ago.
        """
        await self._keys.ready()
        now = self._now()
        for key in self._keys.known:
            if (content := key.unseal(sealed, now, LIFETIME)) is not None:
                return SignedFile.decode("a signed URL", content)
        raise SignatureRefused(
            "the signature of this URL is not valid, or no longer: "
            "ask for another URL with POST …/tasks/TASK/files/FILE:sign"
        )


def is_download_by_signature(scope: Scope) -> bool:
    """Return whether a request downloads a file by a signed URL, which any page may load."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    # Another application that mounts this one has its path before ours.
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith(_BASE)
