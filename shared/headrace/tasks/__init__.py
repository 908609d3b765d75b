"""The commands on tasks, one implementation each."""
