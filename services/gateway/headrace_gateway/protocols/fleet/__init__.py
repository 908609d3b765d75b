"""The fleet API: what consoles and operators need beside the agents' protocols."""
