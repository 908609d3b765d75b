"""Stub services for tests of how `headrace dev` manages processes.

First on a stack's PYTHONPATH, they take the real ones' place and are up in a moment.
"""
