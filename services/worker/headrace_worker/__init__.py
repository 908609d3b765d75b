"""The worker: runs agents, and the SDK that their authors import."""
