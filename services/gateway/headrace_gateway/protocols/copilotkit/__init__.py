"""CopilotKit's runtime, as its React client expects it: no Node server stands in between."""
