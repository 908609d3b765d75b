"""What the code may not become."""
