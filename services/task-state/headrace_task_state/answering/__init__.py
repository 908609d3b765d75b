"""Answering on ``state.*``: questions in, answers or refusals out, through FastStream."""
