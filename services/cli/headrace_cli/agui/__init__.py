"""``headrace agui``: check whether an agent, or a bridge to one, keeps the rules of AG-UI."""
