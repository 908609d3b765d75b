"""LangGraph graphs."""
