"""Runs A2A's official compatibility kit, a copy of which somebody has, against a stack of ours."""
