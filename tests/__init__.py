"""What proves Headrace: from single functions to whole fleets of processes."""
