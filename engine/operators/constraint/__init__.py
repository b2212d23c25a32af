"""Constraint-aware monitoring (SPEC 4.6, L10 chapter 3): alerts before a pattern is complete."""
