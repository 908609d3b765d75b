"""The triggers service: it begins tasks for events and by the clock."""
