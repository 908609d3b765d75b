"""``headrace dead``: commands on dead letters."""
