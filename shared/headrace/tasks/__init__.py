"""Every command on a task, once."""
