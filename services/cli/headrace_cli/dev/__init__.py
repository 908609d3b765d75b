"""``headrace dev``: the development stack, its processes and embedded servers."""
