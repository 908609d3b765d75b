"""CopilotKit's runtime API, which its React client uses without a Node server."""
