"""Judges whether measured clocks and links are good enough for given queries (SPEC 4.3)."""
