"""The projection of a range: its log read in order and written to the store, under its lease."""
