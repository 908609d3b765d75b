"""The worker's pieces, each by itself."""
