"""``headrace init``: a new project with an agent, and the files that it begins with."""
