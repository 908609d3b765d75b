"""Hector's dialect, beside the documents that describe it."""
