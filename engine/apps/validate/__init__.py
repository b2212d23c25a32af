"""Is this hardware good enough for that query? Measured clocks and links, judged (SPEC 4.3)."""
