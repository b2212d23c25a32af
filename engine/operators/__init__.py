"""What answers queries: patterns, windows, constraints, dataflows, cascades and checks."""
