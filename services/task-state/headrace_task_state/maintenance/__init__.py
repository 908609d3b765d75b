"""Periodic work: lost runs, orphans, retention, unused queues, clocks."""
