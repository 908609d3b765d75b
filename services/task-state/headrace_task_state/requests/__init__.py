"""Task state's requests: subjects, answers in pieces, refusals."""
