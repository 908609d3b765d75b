"""How task state is asked: subjects, answers in pieces, refusals."""
