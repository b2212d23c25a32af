"""ISEQ: patterns of intervals by the order of their end points (SPEC 4.7, L10 chapter 5)."""
