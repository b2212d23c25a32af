"""query of the engine."""
