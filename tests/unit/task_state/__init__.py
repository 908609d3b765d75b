"""Task state, by itself."""
