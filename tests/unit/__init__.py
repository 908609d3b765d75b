"""One idea at a time, with fakes where a server would be."""
