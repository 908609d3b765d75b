"""Pictures for the documents, from recordings of real runs: ``python -m tests.pictures``."""
