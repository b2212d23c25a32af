"""SEQ/PAL trees of intervals, whose halves may arrive apart (Z10)."""
