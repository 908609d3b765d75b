"""Whole stacks, from outside, with the clients that people use."""
