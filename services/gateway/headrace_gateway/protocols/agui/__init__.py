"""AG-UI: run inputs in, folds of task logs out."""
