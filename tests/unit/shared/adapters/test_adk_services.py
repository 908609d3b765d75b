"""What operators are told of ADK's services that keep what they are given in one process."""


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
