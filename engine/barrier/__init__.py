"""barrier of the engine."""
