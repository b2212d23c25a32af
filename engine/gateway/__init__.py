"""gateway of the engine."""
