"""Questions that an agent of a framework asks its user."""
