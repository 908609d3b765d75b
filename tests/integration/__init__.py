"""One service at a time, on real servers."""
