"""The command line: development stack, clients, operations."""
