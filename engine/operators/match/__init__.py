"""pattern of the engine."""
