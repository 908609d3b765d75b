"""A nats-server with the accounts and users of a fleet (`headrace.jetstream.permissions`)."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.jetstream.permissions import Permissions, SubjectAccess, WorkerGroup
from headrace.model.queues import DEFAULT_TENANT
from headrace.settings import BusSettings
from tests.support.secured_nats import SecuredNats


class NatsOfRoles(SecuredNats):
    """One nats-server on loopback in which every role has a user of its own."""

    def __init__(
        self,
        folder: Path,
        groups: Sequence[WorkerGroup],
        tenants: Sequence[str] = (DEFAULT_TENANT,),
        settings: BusSettings | None = None,
        events: Sequence[SubjectAccess] = (),
    ) -> None:
        """Make a server on a free port that keeps everything under `folder`."""
        permissions = Permissions(settings or BusSettings(), groups, tenants, events)
        super().__init__(folder, permissions.configuration(), name="roles")
        self._variables = permissions.passwords()
        passwords = {variable: self._password(user) for user, variable in self._variables.items()}
        self.environment = {"PATH": os.environ["PATH"], **passwords}

    def login(self, user: str) -> dict[str, str]:
        """Return the settings by which a service connects as `user`."""
        assert user in self._variables
        return {
            "HEADRACE_NATS_URL": self.url,
            "HEADRACE_NATS_USER": user,
            "HEADRACE_NATS_PASSWORD": self._password(user),
        }

    def url_of(self, user: str) -> str:
        """Return where `user` connects, with its password."""
        return self.url.replace("//", f"//{user}:{self._password(user)}@")

    def violations(self) -> list[str]:
        """Return what its log says that somebody tried and may not do."""
        return re.findall(r".*(?:[Vv]iolation|[Aa]uthoriz).*", self.log.read_text())

    @staticmethod
    def _password(user: str) -> str:
        return f"password-of-{user}"
