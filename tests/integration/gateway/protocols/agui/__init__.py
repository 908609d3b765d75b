"""The AG-UI endpoint of a gateway in this process, with a fleet that does what a test scripts."""
