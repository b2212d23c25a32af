"""Pages that are made of a pass: report, compare, sweep and validate."""
