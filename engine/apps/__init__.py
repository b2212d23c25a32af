"""Applications of a pass: report, compare, sweep and validate."""
