"""The agents of these tests."""

from headrace.directory import AgentCard
from headrace.model.agent_card import AgentSecurity, Provider, SecurityScheme
from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.model.task import COMPLETED, INPUT_REQUIRED
from tests.support.scripted_fleet import Run, Script


async def echo(run: Run) -> None:
    """Say the message again, and complete."""
    await run.chunk(text_of(run.message["parts"]), append=False)
    await run.status(COMPLETED)


async def ask(run: Run) -> None:
    """Ask for a name once, then greet."""
    if run.run == 1:
        await run.status(INPUT_REQUIRED, "What is your name?")
    else:
        await run.status(COMPLETED, f"Hello {text_of(run.message['parts'])}")


async def patient(run: Run) -> None:
    """Say `a`, wait for the test, say `b`, complete."""
    await run.chunk("a", append=False)
    await run.go_on.wait()
    await run.chunk("b")
    await run.status(COMPLETED)


async def bare(run: Run) -> None:
    """Answer with a Message; with a task if asked for one; late if asked to be."""
    text = text_of(run.message["parts"])
    if text == "task":
        await run.chunk("a task after all", append=False)
        await run.status(COMPLETED)
        return
    if text == "late":
        await run.go_on.wait()
    await run.answer(f"bare {text}")


REQUIRED: Json = {"uri": "urn:test:required", "description": "Has to be.", "required": True}
TOKEN = SecurityScheme(type="http", scheme="bearer")
KNOWN_ONLY = AgentSecurity(
    schemes={"token": TOKEN, "key": SecurityScheme(type="apiKey", name="X-API-Key")},
    require=["token"],
)
OWN_HEADER = SecurityScheme(type="apiKey", name="X-Partner-Key")
OPTIONAL: Json = {"uri": "urn:test:optional", "description": "May be."}
EXTENDED = {
    "description": "Asks for names; knows some.",
    "skills": [{"id": "names", "name": "Names", "description": "Knows names.", "tags": ["names"]}],
}
"""What callers with credentials are told of `ask`."""

FOR_PEOPLE: Json = {
    "display_name": "Asks for names",
    "icon_url": "https://ask.example/icon.png",
    "documentation_url": "https://ask.example/docs",
    "provider": Provider(organization="Acme", url="https://acme.example"),
}

AGENTS: dict[str, tuple[AgentCard, Script]] = {
    "assistant": (AgentCard(name="assistant", description="Says it again."), echo),
    "ask": (AgentCard(name="ask", extended=EXTENDED, **FOR_PEOPLE), ask),
    "patient": (AgentCard(name="patient", input_modes=["*/*"], extended={}), patient),
    "demanding": (AgentCard(name="demanding", extensions=[REQUIRED, OPTIONAL]), echo),
    "terse": (AgentCard(name="terse", streaming=False), echo),
    "bare": (AgentCard(name="bare", bare_message=True, push_notifications=False), bare),
    "choosy": (AgentCard(name="choosy", security=KNOWN_ONLY), echo),
    "partners": (
        AgentCard(
            name="partners",
            security=AgentSecurity(
                schemes={"token": TOKEN, "partner": OWN_HEADER}, require=["partner"]
            ),
        ),
        echo,
    ),
    "either": (
        AgentCard(
            name="either",
            security=AgentSecurity(schemes={"token": TOKEN, "partner": OWN_HEADER}),
        ),
        echo,
    ),
}
