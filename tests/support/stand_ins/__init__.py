"""Services without substance, for tests of what `headrace dev` does with processes.

First on a stack's PYTHONPATH, they take the real ones' place and are up in a moment.
"""
