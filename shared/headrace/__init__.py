"""Headrace's shared vocabulary: the task log, the bus contract, events and their folds."""
