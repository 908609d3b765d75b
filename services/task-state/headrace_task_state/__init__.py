"""Task state: the log folded into Redis, and the reads that it answers."""
