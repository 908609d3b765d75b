"""Commands on tasks, and reads, for all protocols."""
