"""Task state: the log folded into a store, and the reads that it answers."""
