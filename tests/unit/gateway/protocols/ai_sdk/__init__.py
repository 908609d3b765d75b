"""The AI SDK's chunks."""
