"""What agents are written with. Nothing here knows a broker, a server or a worker."""
