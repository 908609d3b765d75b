"""The SDK for agents. It does not depend on a broker, a server or a worker."""
