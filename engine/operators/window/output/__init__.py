"""Windows as results and tables."""
