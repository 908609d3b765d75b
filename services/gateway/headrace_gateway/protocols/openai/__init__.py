"""OpenAI's Responses and chat completions: the model that a client names is an agent."""
