"""The command line, without processes."""
