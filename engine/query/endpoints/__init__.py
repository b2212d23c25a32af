"""Order of the end points of intervals: what a TList implies, and Allen's names (L10 5.3)."""
