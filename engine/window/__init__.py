"""window of the engine."""
