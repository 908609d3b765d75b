"""Following a range of the event stream and applying it, as long as its lease is held."""
