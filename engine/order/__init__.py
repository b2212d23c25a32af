"""order of the engine."""
