"""The conversation that a model gets, and what is kept of it."""
