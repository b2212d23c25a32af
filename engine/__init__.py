"""Engine: gateway core, arrival log, ordering, windows, patterns and their Spark host."""
