"""Authentication and permissions of callers."""
