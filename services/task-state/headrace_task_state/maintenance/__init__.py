"""What time brings: lost runs, orphans, retention, unused lanes, clocks."""
