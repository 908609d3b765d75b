"""The worker: runs agents. Their authors import `headrace`."""
