"""log of the engine."""
