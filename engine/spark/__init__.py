"""spark of the engine."""
