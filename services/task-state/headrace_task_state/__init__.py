"""Task state: folds the log into a store and answers reads from it."""
