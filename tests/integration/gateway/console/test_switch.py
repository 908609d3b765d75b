"""A gateway without the console."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")

BROWSER = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """The switch, as an environment variable has it."""
    return {"console": "off"}


async def test_browsers_get_what_other_clients_get(http: httpx.AsyncClient) -> None:
    page, card = await http.get("/", headers=BROWSER), await http.get("/")
    assert (page.status_code, page.content) == (card.status_code, card.content)
    assert (await http.get("/console/", headers=BROWSER)).status_code == 404
