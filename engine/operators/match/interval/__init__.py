"""Patterns of intervals: ISEQ (SPEC 4.7, L10 chapter 5), and SEQ/PAL trees (SPEC 4.8, Z10)."""
