"""The protocols that clients speak, each a folder of its own."""
