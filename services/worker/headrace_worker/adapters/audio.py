"""Audio that models of OpenAI's APIs take."""

AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""Media types, with the APIs' names for them."""
