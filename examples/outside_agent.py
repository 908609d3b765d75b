"""An outside A2A agent, served through this fleet.

From this folder: ``headrace dev --agents outside_agent:outside``. Needs ``headrace[a2a]``, and an
A2A agent at `OUTSIDE_URL`.
"""

from headrace.adapters import Bearer, remote_agent

OUTSIDE_URL = "http://127.0.0.1:9000"

outside = remote_agent(
    OUTSIDE_URL,
    name="outside",
    # A key: ApiKey("…"). OAuth 2: ClientCredentials("id", "secret", "https://…/token").
    credentials=Bearer("a token from wherever secrets are kept"),
)
