"""Task state on real servers."""
