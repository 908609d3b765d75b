"""Any process dies, freezes or leaves at any moment, and every promise holds: ``make chaos``."""
