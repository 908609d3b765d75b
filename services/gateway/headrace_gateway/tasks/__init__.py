"""What callers ask of tasks, whichever protocol they speak."""
