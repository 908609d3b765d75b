"""What time brings: lost runs, orphans, retention, unused queues, clocks."""
