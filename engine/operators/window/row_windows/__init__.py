"""Windows of a number of events of a group (ROWS)."""
