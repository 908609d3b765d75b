"""AG-UI agents behind HTTP."""
