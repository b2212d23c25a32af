"""Patterns of intervals (Z10): trees of SEQ and PAL, and what they ask of end points."""
