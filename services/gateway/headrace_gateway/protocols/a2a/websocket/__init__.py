"""WebSockets: any number of tasks over one connection."""
