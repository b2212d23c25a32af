"""report of the engine."""
